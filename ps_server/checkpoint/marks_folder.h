// MarksFolder: keeps SessionMarks in files that are mapped, one a session, which survive
// the process and, as a lower bound, the host:
//
//   STATE_DIR/ps-I/marks/JOB@TERM/wW.iN
//
//   file   = magic boot stripes mark*     little-endian
//   magic  = "MNSNMRK1"
//   boot   = 48 bytes: the id of the host's boot in which the file was made
//   mark   = 8 bytes, one a stripe: the last sequence it has seen of the session
//
// What cannot be made or mapped is logged and does without: marks serve reports only.
//
// Thread safe. Of the system's files only.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/shard/session_marks.h"

namespace monsoon {

// The id of the host's boot; "": unknown.
std::string BootId();

class MarksFolder {
 public:
  // `path` is made when first needed. `boot` is BootId(), but in tests.
  MarksFolder(std::string path, std::string boot);
  ~MarksFolder();

  // As MakeSessionMarks. What it makes may outlive this.
  std::unique_ptr<SessionMarks> OpenJob(const CreateShardJobRequest& create, uint32_t stripes,
                                        bool fresh);
  // The job is deleted.
  void Remove(const std::string& job, uint64_t job_term);
  // Those of jobs that are not in memory and have no folder in `jobs_folder` go.
  void RemoveOthers(const std::string& jobs_folder);

 private:
  class Marks;
  struct Live {
    Mutex mutex;
    std::multiset<std::string> folders ABSL_GUARDED_BY(mutex);  // names
  };

  const std::string path_;
  const std::string boot_;
  const std::shared_ptr<Live> live_;
};

}  // namespace monsoon
