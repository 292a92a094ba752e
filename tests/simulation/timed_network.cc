#include "tests/simulation/timed_network.h"

#include "common/base/status.h"
#include "worker/backend/backend.h"

namespace monsoon::simulation {

absl::StatusOr<std::unique_ptr<Network>> TimedNetwork::Create(World* world,
                                                              const ParameterLayout& layout) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      CreateNetwork(BackendKind::kReference, world->plan.job.model(), layout, NetworkOptions()));
  return std::make_unique<TimedNetwork>(world, std::move(network));
}

absl::StatusOr<StepResult> TimedNetwork::LossAndGradient(const Batch& batch, const StepKey& key,
                                                         std::span<float> gradient) {
  world_->threads.Park(nullptr,
                       world_->dice.Between(absl::Milliseconds(2), absl::Milliseconds(20)));
  return network_->LossAndGradient(batch, key, gradient);
}

absl::StatusOr<EvaluationResult> TimedNetwork::Evaluate(const Batch& batch) {
  world_->threads.Park(nullptr, absl::Milliseconds(1));
  return network_->Evaluate(batch);
}

}  // namespace monsoon::simulation
