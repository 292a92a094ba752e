// BatchObjective: F(w) = (sum of the batch's losses) / examples + l2 / 2 * |w|^2
// and its gradient, computed by replicas and summed exactly by the shards. On request
// |w|^2 is that of the weights without the biases.
//
// The sums are fixed-point. The range of each line of 16 parameters is taken
// from the evaluation before; the first from a probe, which is one contribution.
// That a range was too small or too wide is found when the evaluation is closed,
// whatever the order of arrival, and the evaluation is repeated with the range that
// it showed.
//
// Costs two round trips: the trial point and whatever else is kept travels with the
// opening, the products with the close.
//
// Not thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/shard_vector_space.h"

namespace monsoon {

// An evaluation shows the range that is needed, so one repetition is enough.
inline constexpr int kMaxRepetitions = 3;

class BatchObjective : public Objective {
 public:
  struct Options {
    double l2 = 0;
    bool l2_weights_only = false;
    uint32_t contributions = 0;  // of a whole batch
    // Evaluations are numbered from the one after this: no two of a job, whatever became of
    // the first, have a number in common.
    uint64_t evaluation = 0;
  };

  // Both must outlive this.
  BatchObjective(const Options& options, ShardVectorSpace* space, BatchEvaluator* evaluator)
      : options_(options), space_(space), evaluator_(evaluator), evaluation_(options.evaluation) {}

  // The shards know the ranges of an evaluation before: of a run that goes on.
  void GoOn(uint64_t overflows) {
    probed_ = true;
    overflows_ = overflows;
  }

  absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w, const std::string& gradient_out,
                                          const std::string& along) override;

  // Evaluations repeated because a sum did not fit its range. May be read by any thread.
  uint64_t overflows() const { return overflows_; }

 private:
  struct Pass {
    BatchResult batch;
    ShardVectorSpace::Closed closed;
  };
  // The vector that the L2 term counts at `w`: w itself, "" without an l2, or w's
  // weights as a vector of `owner`.
  absl::StatusOr<std::string> Regularised(const std::string& w, OwnedVector* owner);
  // `gradient_out` is empty for a probe.
  absl::StatusOr<Pass> RunOnce(const std::string& w, const std::string& gradient_out,
                               const std::string& along);

  const Options options_;
  ShardVectorSpace* const space_;
  BatchEvaluator* const evaluator_;
  OwnedVector is_weight_;  // 1 or 0, once it is needed
  uint64_t evaluation_;
  bool probed_ = false;
  std::atomic<uint64_t> overflows_{0};
};

}  // namespace monsoon
