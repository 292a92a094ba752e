// Trainer: trains a Downpour job in one process, without shards: the yardstick
// of a cluster's accuracy and speed. Layers, data order (blocks 0, 1, 2, ... of
// each epoch's permutation), optimizer kernels, clipping, schedule and dropout
// keys are those of the job; the result is what one replica with `overlap:
// NONE` computes, n_fetch and n_push included. `local_update`, `warmstart`,
// `replicas` and `overlap` say nothing to it; with local steps the inner optimizer trains
// alone.
//
// Thread safety: none; one thread calls everything. It computes there, with
// Options::threads; a second thread gathers the next batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/data_source.h"
#include "worker/data/prefetcher.h"

namespace monsoon {

struct TrainerOptions {
  int threads = 1;
  BackendKind backend = BackendKind::kCpu;
};

// Over the training batches since the last report, and the test set.
struct TrainingReport {
  double epoch = 0;  // epochs done
  uint64_t step = 0;
  uint64_t examples = 0;      // since the beginning
  double loss = 0;            // mean over the samples of this interval
  double accuracy = 0;        // in training
  double examples_per_s = 0;  // of training alone, without evaluation
  double elapsed_s = 0;       // of training alone, since the beginning
  // Null where the job has no test set or no evaluation was due.
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
};

class Trainer {
 public:
  // Opens the data sets and fills in the initial parameters; blocks on the
  // disk. Errors name the file, layer or field.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Job& job,
                                                         const TrainerOptions& options);

  // Trains until the job's `stop`; calls `on_report` at the end of each epoch
  // and at each evaluation, and returns the last report. Aborted, "diverged:
  // ..." with step and tensor, at the first loss or gradient that is not
  // finite.
  absl::StatusOr<TrainingReport> Run(const std::function<void(const TrainingReport&)>& on_report);

  const ParameterLayout& layout() const { return layout_; }
  // The current parameters, laid out as layout() says.
  std::span<const float> parameters() const { return parameters_.span(); }

 private:
  // What a report is made of.
  struct Interval {
    double loss_sum = 0;
    double correct = 0;
    uint64_t examples = 0;
    absl::Duration time;
  };

  Trainer(const Job& job, ParameterLayout layout);

  absl::StatusOr<std::unique_ptr<PrefetchedBatch>> NextBatch();
  absl::Status Step(const Batch& batch);
  absl::Status Push();
  // True where the job's stop condition holds, without the accuracy.
  bool Finished() const;
  bool EvaluationDue(bool last) const;
  absl::Status Evaluate(TrainingReport& report);
  absl::StatusOr<TrainingReport> Report(bool evaluate);

  const Job job_;
  const ParameterLayout layout_;
  std::vector<Slice> statistics_;  // StatisticRanges
  std::shared_ptr<const DataSource> train_;
  std::shared_ptr<const DataSource> test_;  // null: no evaluation
  std::unique_ptr<OptimizerKernel> optimizer_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Prefetcher> prefetcher_;

  AlignedFloats parameters_;
  AlignedFloats state_;     // the optimizer's
  AlignedFloats fetched_;   // what the steps compute with; unused if n_fetch is 1
  AlignedFloats gradient_;  // of one step
  AlignedFloats sum_;       // of n_push steps; unused if n_push is 1
  uint32_t summed_ = 0;     // steps in sum_
  Batch evaluation_batch_;

  uint64_t steps_ = 0;
  uint64_t pushes_ = 0;
  uint64_t examples_ = 0;
  uint32_t next_epoch_ = 0;  // not given to the prefetcher yet
  absl::Duration training_time_;
  double last_evaluation_ = 0;  // in epochs
  Interval interval_;
};

}  // namespace monsoon
