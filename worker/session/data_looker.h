// DataLooker: answers the coordinator's questions about data files (DataQuestion), in a thread of
// its own, since headers and labels may take longer than a worker may be silent.
//
// One question at a time: another one that comes meanwhile is left alone, and the coordinator asks
// it again.
//
// Thread safety: all calls may run concurrently.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "proto/data_report.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

class DataLooker {
 public:
  // `look` reads the files; null: this process has none to look at, and answers nothing.
  // `on_answer` is called by the thread that has looked.
  DataLooker(std::function<DataReport(const Job&)> look, std::function<void()> on_answer);
  // Waits for a look that is under way.
  ~DataLooker();
  DataLooker(const DataLooker&) = delete;
  DataLooker& operator=(const DataLooker&) = delete;

  // `term` is that of the coordinator that asks. Does not wait.
  void Ask(const DataQuestion& question, uint64_t term);
  // The newest answer.
  std::optional<DataReport> report() const;

 private:
  void Look(const DataQuestion& question, uint64_t term);

  const std::function<DataReport(const Job&)> look_;
  const std::function<void()> on_answer_;
  mutable Mutex mutex_;
  bool looks_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<DataReport> report_ ABSL_GUARDED_BY(mutex_);
  Thread thread_ ABSL_GUARDED_BY(mutex_);  // of the newest question
};

}  // namespace monsoon
