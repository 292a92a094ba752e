// DeviceTraining on an Engine: engine_vectors.h with the types and errors of the
// interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/engine_vectors.h"
#include "worker/nn/device_training.h"

namespace monsoon::cuda {

// The error of a GPU's network, if any; it names the GPU.
absl::Status ToStatus(const ErrorLog& errors, uint32_t device_index);

class EngineTraining : public DeviceTraining {
 public:
  using ComputeStep =
      std::function<absl::StatusOr<StepResult>(const Batch& batch, const StepKey& key)>;

  // `compute` runs a step on `engine` whose gradient stays there.
  EngineTraining(Engine* engine, uint64_t floats, uint32_t device_index, ComputeStep compute)
      : engine_(engine),
        vectors_(engine),
        floats_(floats),
        device_index_(device_index),
        compute_(std::move(compute)) {}

  absl::StatusOr<std::unique_ptr<PlacedFloats>> Allocate(size_t floats, float fill) override;
  void Fill(std::span<float> to, float value) override;
  void Add(std::span<const float> from, std::span<float> to) override;
  void Copy(std::span<const float> from, std::span<float> to) override;
  // Of parameters() and gradient(), and a kernel that has a step (OptimizerKernel::StepAt).
  void Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w, std::span<float> state,
             std::span<const float> g, std::span<float> moved, bool fresh) override;

  std::span<float> parameters() override { return {vectors_.parameters(), floats_}; }
  std::span<float> gradient() override { return {vectors_.gradient(), floats_}; }
  absl::StatusOr<StepResult> Compute(const Batch& batch, const StepKey& key) override {
    return compute_(batch, key);
  }
  absl::StatusOr<std::unique_ptr<Reading>> Read(std::span<const float> from,
                                                std::span<float> to) override;
  absl::Status PrepareFor(DeviceTraining& other) override;
  void AddToGradient(std::span<const float> theirs, DeviceTraining& other) override;
  void AddToSum(double weight, std::span<const float> theirs, DeviceTraining& other,
                std::span<float> sum, bool fresh) override;
  void Round(std::span<const float> sum, std::span<float> to) override;
  void Encode(Half half, std::span<const float> from, std::span<float> residual,
              std::span<float> to) override;
  void TakeParameters(DeviceTraining& other) override;
  absl::Status Finish() override {
    vectors_.Finish();
    return status();
  }
  absl::Status status() const override { return ToStatus(engine_->errors(), device_index_); }

 private:
  Engine* const engine_;
  EngineVectors vectors_;
  const uint64_t floats_;
  const uint32_t device_index_;
  const ComputeStep compute_;
};

}  // namespace monsoon::cuda
