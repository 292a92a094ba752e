// A network with a device of its own memory, on the host: DeviceTraining around any
// network. What is on its way is not there yet: parameters arrive at the next step, and
// a copy to the host when it is waited for.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "worker/nn/device_training.h"
#include "worker/nn/network.h"

namespace monsoon::testing {

class FakeDevice : public Network, public DeviceTraining {
 public:
  FakeDevice(std::unique_ptr<Network> network, size_t floats)
      : network_(std::move(network)), parameters_(floats), gradient_(floats) {}

  // Of vectors of the model's size, over all calls.
  size_t vectors_in = 0;
  size_t vectors_out = 0;
  size_t peer_vectors = 0;
  // Asked before memory is given.
  std::function<absl::Status()> before_allocation;

  // ---- Network ----
  void SetParameters(std::span<const float> parameters) override {
    coming_ = parameters;
    late_adds_.clear();
  }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    ASSIGN_OR_RETURN(const StepResult result, Compute(batch, key));
    std::copy(gradient_.begin(), gradient_.end(), gradient.begin());
    ++vectors_out;
    return result;
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    Arrive();
    network_->SetParameters(parameters_);
    return network_->Evaluate(batch);
  }
  std::string Fingerprint() const override { return network_->Fingerprint(); }
  DeviceTraining* device_training() override { return this; }

  // ---- DeviceTraining ----
  absl::StatusOr<std::unique_ptr<PlacedFloats>> Allocate(size_t floats, float fill) override {
    if (before_allocation) RETURN_IF_ERROR(before_allocation());
    return host_.Allocate(floats, fill);
  }
  void Fill(std::span<float> to, float value) override {
    Arrive();
    host_.Fill(to, value);
  }
  void Add(std::span<const float> from, std::span<float> to) override {
    if (!coming_.empty() && to.data() >= parameters_.data() &&
        to.data() < parameters_.data() + parameters_.size()) {
      late_adds_.push_back({from, to});
      return;
    }
    host_.Add(from, to);
  }
  void Copy(std::span<const float> from, std::span<float> to) override {
    Arrive();
    host_.Copy(from, to);
  }
  void Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w, std::span<float> state,
             std::span<const float> g, std::span<float> moved, bool fresh) override {
    Arrive();
    CHECK(kernel.StepAt(k).has_value());  // as a GPU does
    host_.Apply(kernel, k, w, state, g, moved, fresh);
  }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  absl::StatusOr<StepResult> Compute(const Batch& batch, const StepKey& key) override {
    Arrive();
    network_->SetParameters(parameters_);
    return network_->LossAndGradient(batch, key, gradient_);
  }
  absl::StatusOr<std::unique_ptr<Reading>> Read(std::span<const float> from,
                                                std::span<float> to) override {
    Arrive();
    ++vectors_out;
    return std::make_unique<FakeReading>(std::vector<float>(from.begin(), from.end()), to);
  }
  absl::Status PrepareFor(DeviceTraining&) override {
    return before_allocation ? before_allocation() : absl::OkStatus();
  }
  void AddToGradient(std::span<const float> theirs, DeviceTraining&) override {
    ++peer_vectors;
    host_.Add(theirs, gradient_);
  }
  void AddToSum(double weight, std::span<const float> theirs, DeviceTraining&, std::span<float> sum,
                bool fresh) override {
    ++peer_vectors;
    double* const to = reinterpret_cast<double*>(sum.data());
    for (size_t i = 0; i < theirs.size(); ++i) {
      to[i] = (fresh ? 0.0 : to[i]) + weight * theirs[i];
    }
  }
  void Round(std::span<const float> sum, std::span<float> to) override {
    const double* const from = reinterpret_cast<const double*>(sum.data());
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  }
  void Encode(Half half, std::span<const float> from, std::span<float> residual,
              std::span<float> to) override {
    std::vector<float> scratch(from.size());
    TensorCodec::Find(half == Half::kBfloat16 ? BFLOAT16 : FLOAT16)
        ->EncodeWithFeedback(from, residual, scratch, std::as_writable_bytes(to));
  }
  void TakeParameters(DeviceTraining& other) override {
    static_cast<FakeDevice&>(other).Arrive();
    coming_ = {};
    late_adds_.clear();
    ++peer_vectors;
    host_.Copy(other.parameters(), parameters_);
  }
  absl::Status Finish() override {
    Arrive();
    return absl::OkStatus();
  }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  class FakeReading : public Reading {
   public:
    FakeReading(std::vector<float> values, std::span<float> to)
        : values_(std::move(values)), to_(to) {}
    absl::Status Await() override {
      std::copy(values_.begin(), values_.end(), to_.begin());
      return absl::OkStatus();
    }

   private:
    const std::vector<float> values_;
    const std::span<float> to_;
  };

  void Arrive() {
    if (coming_.empty()) return;
    CHECK_EQ(coming_.size(), parameters_.size());
    std::copy(coming_.begin(), coming_.end(), parameters_.begin());
    ++vectors_in;
    coming_ = {};
    for (const auto& [from, to] : std::exchange(late_adds_, {})) host_.Add(from, to);
  }

  const std::unique_ptr<Network> network_;
  HostPlace host_;
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  std::span<const float> coming_;
  std::vector<std::pair<std::span<const float>, std::span<float>>> late_adds_;
};

}  // namespace monsoon::testing
