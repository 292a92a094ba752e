#include "tests/simulation/counting_network.h"

namespace monsoon::simulation {

absl::StatusOr<StepResult> CountingNetwork::LossAndGradient(const Batch& batch, const StepKey&,
                                                            std::span<float> gradient) {
  Dice& dice = world_->dice;
  world_->threads.Park(nullptr, dice.Between(absl::Milliseconds(2), absl::Milliseconds(20)));
  const auto workers = static_cast<size_t>(world_->cluster.worker_size());
  const size_t of_shard = gradient.size() / world_->ps.size();
  for (size_t i = 0; i < gradient.size(); ++i) {
    // BFLOAT16 has all bits of both.
    gradient[i] = world_->counting ? (OwnerOf(i % of_shard, workers) == worker_ ? -1.0f : 0.0f)
                                   : (static_cast<float>(dice.Below(255)) - 127.0f) / 32.0f;
  }
  return StepResult{
      .loss_mean = 1.0, .correct = static_cast<double>(batch.examples), .examples = batch.examples};
}

absl::StatusOr<EvaluationResult> CountingNetwork::Evaluate(const Batch& batch) {
  world_->threads.Park(nullptr, absl::Milliseconds(1));
  EvaluationResult result;
  result.examples = batch.examples;
  result.correct = batch.examples;
  result.loss_sum = 0.5 * static_cast<double>(batch.examples);
  return result;
}

}  // namespace monsoon::simulation
