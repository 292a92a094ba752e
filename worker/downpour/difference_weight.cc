#include "worker/downpour/difference_weight.h"

#include <algorithm>
#include <utility>

namespace monsoon {

DifferenceWeigher::DifferenceWeigher(const Job& job, uint32_t replicas)
    : replicas_(std::max(1u, replicas)),
      counts_(std::max(1u, job.downpour().local().fragments().count())) {
  const Downpour& downpour = job.downpour();
  if (downpour.local().steps() == 0) {
    return;
  }
  kind_ = downpour.local().weight();
  if (kind_ == DEFAULT_WEIGHT && downpour.has_rounds()) {
    kind_ = STEPS;
  }
  const double steps = downpour.local().steps();
  const LocalSteps& local = downpour.local();
  if (!local.has_inner() && !local.has_fragments() && local.mixing() == 0 && !local.dynamic()) {
    program_steps_ = steps;
  }
  steps_ = downpour.local().weight_reference() > 0 || kind_ == DEFAULT_WEIGHT ? 0 : steps;
  reference_ = downpour.local().weight_reference() > 0
                   ? downpour.local().weight_reference()
                   : WeightOf(steps, steps * std::max(1u, job.batch_size()) * replicas_);
}

void DifferenceWeigher::SetSteps(uint32_t steps) {
  if (steps_ > 0 && steps > 0) {
    reference_ *= steps / steps_;  // each kind of weight grows with them
    steps_ = steps;
  }
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

void DifferenceWeigher::Add(const StepResult& step) {
  for (Counts& counts : counts_) {
    counts.steps += step.steps;
    counts.examples += step.examples;
  }
}

DifferenceWeigher::Counted DifferenceWeigher::Take(uint32_t fragment) {
  const Counts counts = std::exchange(counts_[fragment], Counts());
  // Replicas of one worker step together.
  const double steps = static_cast<double>(counts.steps) / replicas_;
  const auto examples = static_cast<double>(counts.examples);
  if (steps == 0 || examples == 0) {
    return {};
  }
  const double part = program_steps_ > steps ? steps / program_steps_ : 1.0;
  return {static_cast<float>(WeightOf(steps, examples) / reference_), static_cast<float>(part)};
}

}  // namespace monsoon
