// TimedNetwork: the reference network, whose steps take virtual time: of a job whose losses
// matter, as a batch's do. What it computes follows from parameters and samples alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/model/parameter_layout.h"
#include "tests/simulation/world.h"
#include "worker/nn/network.h"

namespace monsoon::simulation {

class TimedNetwork final : public Network {
 public:
  TimedNetwork(World* world, std::unique_ptr<Network> network)
      : world_(world), network_(std::move(network)) {}
  // Of the job of `world`.
  static absl::StatusOr<std::unique_ptr<Network>> Create(World* world,
                                                         const ParameterLayout& layout);

  void SetParameters(std::span<const float> parameters) override {
    network_->SetParameters(parameters);
  }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override;
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override;
  std::string Fingerprint() const override { return network_->Fingerprint(); }

 private:
  World* const world_;
  const std::unique_ptr<Network> network_;
};

}  // namespace monsoon::simulation
