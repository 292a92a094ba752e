#include "worker/backend/cuda/network.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/backend/cuda/device_probe.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/runtime/device_query.h"
#include "worker/backend/cuda/training.h"
#include "worker/nn/check_batch.h"
#include "worker/nn/test_figures.h"

namespace monsoon::cuda {
namespace {

constexpr int kFirstWithBfloat16 = 80;

// For finding faults: MONSOON_CUDA_GRAPHS=off, MONSOON_CUBLASLT=off.
bool IsOff(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string(value) == "off";
}

EngineOptions OptionsFrom(const NetworkSettings& settings) {
  EngineOptions options{.device_index = settings.device_index,
                        .memory_limit_bytes = settings.memory_limit_bytes,
                        .precision = settings.precision};
  options.graphs = !IsOff("MONSOON_CUDA_GRAPHS");
  options.fuse_bias = !IsOff("MONSOON_CUBLASLT");
  return options;
}

class CudaNetwork : public Network {
 public:
  CudaNetwork(NetworkPlan plan, const NetworkSettings& settings)
      : plan_(std::move(plan)),
        device_index_(settings.device_index),
        judge_(plan_.loss),
        engine_(EngineModel{plan_.layers, plan_.loss, plan_.parameter_floats},
                OptionsFrom(settings)) {}

  ~CudaNetwork() override {
    LOG(INFO) << "GPU " << device_index_ << ": " << steps_ << " steps; of parameters and gradients "
              << (engine_.crossed_bytes() >> 20) << " MiB crossed, " << engine_.host_copied_bytes()
              << " bytes were copied by the host";
  }

  absl::Status status() const { return ToStatus(engine_.errors(), device_index_); }

  void SetParameters(std::span<const float> parameters) override {
    CHECK_EQ(parameters.size(), plan_.parameter_floats);
    has_parameters_ = true;
    engine_.SetParameters(parameters);
  }

  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    CHECK_EQ(gradient.size(), plan_.parameter_floats);
    CHECK(has_parameters_);
    CHECK(key.samples.empty() || key.samples.size() == batch.examples);
    RETURN_IF_ERROR(CheckBatch(plan_, batch));
    EngineResult result;
    const bool done = engine_.Train(ToSamples(batch), key, gradient, &result);
    return EndStep(done, batch, result);
  }

  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    CHECK(has_parameters_);
    RETURN_IF_ERROR(CheckBatch(plan_, batch));
    EngineResult result;
    if (!engine_.Evaluate(ToSamples(batch), &result)) {
      return status();
    }
    EvaluationResult evaluation{.loss_sum = result.loss_sum,
                                .correct = result.correct,
                                .examples = batch.examples,
                                .unjudged = Unjudged(batch)};
    // Of sequences nothing is told that needs their outputs, which are many.
    const bool looks = plan_.loss.steps == 1 || plan_.loss.kind == LossKind::kMeanSquaredError;
    outputs_.resize(looks ? batch.examples * plan_.loss.steps * plan_.loss.outputs : 0);
    if (looks && !engine_.CopyOutputs(outputs_)) {
      return status();
    }
    evaluation.judgement = judge_.Of(std::span<const float>(outputs_), TargetsOf(batch));
    return evaluation;
  }

  std::shared_ptr<void> LockPages(std::span<float> memory) override {
    auto lock = std::make_shared<PageLock>(memory.data(), memory.size_bytes());
    return lock->held() ? lock : nullptr;
  }

  DeviceTraining* device_training() override {
    if (training_ == nullptr) {
      training_ = std::make_unique<EngineTraining>(
          &engine_, plan_.parameter_floats, device_index_,
          [this](const Batch& batch, const StepKey& key) { return TrainOnDevice(batch, key); });
    }
    return training_.get();
  }

  std::string Fingerprint() const override { return engine_.Fingerprint(); }

 private:
  absl::StatusOr<StepResult> TrainOnDevice(const Batch& batch, const StepKey& key) {
    CHECK(key.samples.empty() || key.samples.size() == batch.examples);
    RETURN_IF_ERROR(CheckBatch(plan_, batch));
    EngineResult result;
    const bool done = engine_.TrainOnDevice(ToSamples(batch), key, &result);
    return EndStep(done, batch, result);
  }

  absl::StatusOr<StepResult> EndStep(bool done, const Batch& batch, const EngineResult& result) {
    if (!done) {
      return status();
    }
    ++steps_;
    if (!engine_.graph_failure().empty() && !std::exchange(told_, true)) {
      LOG(WARNING) << "GPU " << device_index_ << ": " << engine_.graph_failure()
                   << "; steps run by single launches, small models somewhat slower";
    }
    if (const std::string why = engine_.fusion_failure();
        !why.empty() && !std::exchange(told_of_fusion_, true)) {
      LOG(WARNING) << "GPU " << device_index_ << ": " << why
                   << "; biases of dense layers are added by a kernel after the product";
    }
    return StepResult{.loss_mean = result.loss_sum / static_cast<double>(batch.examples),
                      .correct = result.correct,
                      .examples = batch.examples,
                      .unjudged = Unjudged(batch)};
  }

  uint64_t Unjudged(const Batch& batch) const {
    const bool judged = plan_.loss.kind != LossKind::kMeanSquaredError &&
                        (batch.targets_per_example == 0 || plan_.loss.is_yes_or_no());
    return judged ? 0 : batch.examples;
  }

  static Samples ToSamples(const Batch& batch) {
    const LossTargets targets = TargetsOf(batch);
    const auto data = [](const auto& span) { return span.empty() ? nullptr : span.data(); };
    return Samples{batch.inputs.data(), data(targets.labels), batch.examples, data(targets.targets),
                   data(targets.weights)};
  }

  NetworkPlan plan_;
  uint32_t device_index_;
  bool has_parameters_ = false;
  bool told_ = false;  // that steps are no graphs
  bool told_of_fusion_ = false;
  uint64_t steps_ = 0;
  Judge judge_;
  std::vector<float> outputs_;  // of an evaluation
  Engine engine_;
  std::unique_ptr<EngineTraining> training_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(NetworkPlan plan,
                                                       const NetworkSettings& settings) {
  if (const std::string problem = ProbeDevice(settings.device_index); !problem.empty()) {
    return absl::FailedPreconditionError(problem);
  }
  if (const int capability = ComputeCapability(settings.device_index);
      settings.precision == Precision::kBfloat16 && capability < kFirstWithBfloat16) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", settings.device_index, " (", DescribeDevice(settings.device_index),
                     ") does not compute BFLOAT16, which needs sm_", kFirstWithBfloat16,
                     " or later; use FLOAT16, TF32 or FLOAT32, or another GPU"));
  }
  auto network = std::make_unique<CudaNetwork>(std::move(plan), settings);
  RETURN_IF_ERROR(network->status());
  return std::unique_ptr<Network>(std::move(network));
}

}  // namespace monsoon::cuda
