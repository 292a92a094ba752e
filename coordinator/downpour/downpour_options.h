// DownpourOptions: how a job's part of Downpour SGD goes, as its settings and data say.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/checkpoint.pb.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

struct DownpourOptions {
  uint64_t examples = 0;  // of the training set
  uint64_t block_examples = 0;
  // Nobody has counted the samples: `examples` only cuts them into epochs, of which people
  // are not told, and the job ends when no replica has any more.
  bool unnumbered = false;
  uint32_t batch_size = 0;
  Stop stop;
  Warmstart warmstart;
  double evaluate_every_epochs = 0;
  bool has_test = false;
  TestMetric keep_best = NO_TEST_METRIC;
  // With the reductions that were counted before; unset: none.
  std::optional<PlateauSchedule> plateau;
  uint32_t max_epochs_ahead = 1;
  // Replicas tell their clocks, and those that are too far ahead wait; unset: they do not.
  std::optional<uint32_t> staleness_bound;
  // Another procedure goes on from here: replicas stay, and the last evaluation
  // is not the job's.
  bool hands_over = false;
  // What was done before, by a job that this one resumes; no warmstart then.
  DownpourProgress resumed;

  // `job` is valid; `examples` is what its training set has.
  static DownpourOptions FromJob(const Job& job, uint64_t examples);
};

}  // namespace monsoon
