// SynchronousOptions: how a job trains synchronously, as its settings and data say.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct SynchronousOptions {
  uint64_t examples = 0;  // of the training set
  uint32_t batch_size = 0;
  Stop stop;
  double evaluate_every_epochs = 0;
  bool has_test = false;
  TestMetric keep_best = NO_TEST_METRIC;
  uint32_t workers = 1;  // that are expected
  // A member that is silent for so long is missing.
  absl::Duration patience;
  // The shards get the state so often.
  absl::Duration store_every;
  // Where the job that this one resumes had come.
  SynchronousPosition resumed;

  // `job` is valid, with its defaults; `examples` is what its training set has.
  static SynchronousOptions FromJob(const Job& job, uint64_t examples, uint32_t workers,
                                    absl::Duration lost_after);
};

}  // namespace monsoon
