// DataLook: one question about the data files of a job: which workers were asked, and what they
// have found. Files are as each machine sees them, so all that is said of them names the worker,
// and where two workers see different files that is told.
//
// Pure: time is an argument. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/data_report.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

// Whoever has not looked by then is not waited for, if others have.
inline constexpr absl::Duration kLookFor = absl::Seconds(10);

// What the workers' answers come to. Messages begin with who has found it.
struct DataVerdict {
  std::vector<DataFinding> errors;
  std::vector<DataFinding> warnings;
  uint64_t examples = 0;  // of the training set
  // "worker/0 on alpha: train 1200 samples of [28, 28], 10 classes".
  std::string seen;
};

class DataLook {
 public:
  DataLook(Job job, absl::Duration now) : job_(std::move(job)), began_(now) {}

  const Job& job() const { return job_; }

  // `name` is what people are told of the worker: "worker/0 on alpha".
  void Ask(uint32_t worker, uint64_t incarnation, std::string name);
  // Whether this life of the worker was asked and has not answered.
  bool Awaits(uint32_t worker, uint64_t incarnation) const;
  // No effect unless it is awaited.
  void Answer(uint32_t worker, uint64_t incarnation, const DataReport& report);
  // It is gone, or was started anew: no answer will come. One that has come stays.
  void NoteGone(uint32_t worker, uint64_t incarnation);
  // Nobody has answered, and nobody will.
  bool hopeless() const { return asked_.empty(); }
  // Who has not answered, for people.
  std::vector<std::string> awaited() const;
  std::vector<std::pair<uint32_t, uint64_t>> asked() const;

  // Nothing while some have not answered, and there is time.
  std::optional<DataVerdict> Verdict(absl::Duration now) const;

 private:
  struct Asked {
    uint64_t incarnation = 0;
    std::string name;
    std::optional<DataReport> report;
  };

  std::vector<const Asked*> Answered() const;
  void Compare(const Asked& first, const Asked& other, DataVerdict* verdict) const;

  const Job job_;
  const absl::Duration began_;
  std::map<uint32_t, Asked> asked_;
};

// "worker/2 on beta: /data/train.npz: no such file (train.npz.file)", for people.
std::string FindingText(const DataFinding& finding);

}  // namespace monsoon
