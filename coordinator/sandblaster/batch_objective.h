// BatchObjective: F(w) = (sum of the batch's losses) / examples + l2 / 2 * |w|^2
// and its gradient, computed by replicas and summed exactly by the shards.
//
// The sums are fixed-point. The range of each line of 16 parameters is taken
// from the evaluation before; the first from a probe, which is one contribution.
// An overflow is found when the evaluation is closed, whatever the order of
// arrival, and the evaluation is repeated with the range that it showed.
//
// Not thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"
#include "coordinator/sandblaster/batch_evaluator.h"
#include "coordinator/sandblaster/vector_shards.h"

namespace monsoon {

// An overflow shows the range that is needed, so one repetition is enough.
inline constexpr int kMaxOverflows = 3;

class BatchObjective : public Objective {
 public:
  struct Options {
    double l2 = 0;
    uint32_t contributions = 0;  // of a whole batch
  };

  // Everything must outlive this. `space` works on `shards`.
  BatchObjective(const Options& options, VectorShards* shards, VectorSpace* space,
                 BatchEvaluator* evaluator)
      : options_(options), shards_(shards), space_(space), evaluator_(evaluator) {}

  absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w,
                                          const std::string& gradient_out) override;

  // Evaluations repeated because a sum overflowed. May be read by any thread.
  uint64_t overflows() const { return overflows_; }

 private:
  struct Pass {
    BatchResult batch;
    bool overflow = false;
  };
  absl::StatusOr<Pass> RunOnce(const std::string& w, const std::string& gradient_out, bool probe);

  const Options options_;
  VectorShards* const shards_;
  VectorSpace* const space_;
  BatchEvaluator* const evaluator_;
  uint64_t evaluation_ = 0;
  bool probed_ = false;
  std::atomic<uint64_t> overflows_{0};
};

}  // namespace monsoon
