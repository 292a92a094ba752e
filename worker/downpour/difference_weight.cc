#include "worker/downpour/difference_weight.h"

#include <algorithm>
#include <utility>

namespace monsoon {

DifferenceWeigher::DifferenceWeigher(const Job& job, uint32_t replicas)
    : replicas_(std::max(1u, replicas)) {
  const Downpour& downpour = job.downpour();
  if (downpour.local_steps() == 0) {
    return;
  }
  kind_ = downpour.weight();
  if (kind_ == DEFAULT_WEIGHT && downpour.has_rounds()) {
    kind_ = STEPS;
  }
  const double steps = downpour.local_steps();
  reference_ = downpour.weight_reference() > 0
                   ? downpour.weight_reference()
                   : WeightOf(steps, steps * std::max(1u, job.batch_size()) * replicas_);
}

double DifferenceWeigher::WeightOf(double steps, double examples) const {
  switch (kind_) {
    case STEPS:
      return steps;
    case TOKENS:
      return examples;
    case TOKENS_SQUARED_PER_STEP:
      return examples * examples / steps;
    default:
      return 1;
  }
}

float DifferenceWeigher::Take() {
  // Replicas of one worker step together.
  const double steps = static_cast<double>(std::exchange(steps_, 0)) / replicas_;
  const auto examples = static_cast<double>(std::exchange(examples_, 0));
  if (steps == 0 || examples == 0) {
    return 1;
  }
  return static_cast<float>(WeightOf(steps, examples) / reference_);
}

}  // namespace monsoon
