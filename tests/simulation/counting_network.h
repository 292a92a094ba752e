// CountingNetwork: a network whose steps take virtual time, and whose gradients are known:
// -1 at its worker's own places, which have no others, or anything.
#pragma once

#include <cstdint>
#include <string>

#include "common/model/parameter_layout.h"
#include "tests/simulation/world.h"
#include "worker/nn/network.h"

namespace monsoon::simulation {

class CountingNetwork final : public Network {
 public:
  CountingNetwork(World* world, uint32_t worker) : world_(world), worker_(worker) {}

  // Whose place float `i` of a shard is.
  static uint32_t OwnerOf(size_t i, size_t workers) { return static_cast<uint32_t>(i % workers); }

  void SetParameters(std::span<const float>) override {}
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override;
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override;
  std::string Fingerprint() const override { return "simulated"; }

 private:
  World* const world_;
  const uint32_t worker_;
};

}  // namespace monsoon::simulation
