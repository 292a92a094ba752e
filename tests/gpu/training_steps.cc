#include "tests/gpu/training_steps.h"

#include <algorithm>

namespace monsoon::cuda::testing {
namespace {

constexpr float kRate = 1e-4f;
constexpr float kInitialHistory = 0.1f;
constexpr float kEpsilon = 1e-6f;

}  // namespace

TrainingSteps::TrainingSteps(const TestNetwork& network, const EngineOptions& options,
                             const roofline::Way& way, bool locked, uint64_t examples)
    : way_(way),
      data_(network, examples, 2),
      floats_(network.parameter_floats()),
      engine_(network.model(), options),
      vectors_(&engine_) {
  for (size_t i = 0; i < paged_.size(); ++i) {
    if (locked) {
      locked_[i] = std::make_unique<LockedFloats>(floats_);
    } else {
      paged_[i].resize(floats_);
    }
  }
  const std::vector<float> parameters = network.Parameters(1);
  std::copy(parameters.begin(), parameters.end(), Host(0).begin());
  if (way.on_device && way.n_push > 1) {
    sum_ = vectors_.Allocate(floats_, 0.0f, &problem_);
  }
  if (way.on_device && way.local_update && problem_.empty()) {
    state_ = vectors_.Allocate(floats_, kInitialHistory, &problem_);
    moved_[0] = vectors_.Allocate(floats_, 0.0f, &problem_);
    moved_[1] = vectors_.Allocate(floats_, 0.0f, &problem_);
  }
}

TrainingSteps::~TrainingSteps() { Finish(); }

std::span<float> TrainingSteps::Host(size_t vector) {
  return locked_[vector] == nullptr ? std::span<float>(paged_[vector]) : locked_[vector]->span();
}

std::string TrainingSteps::problem() const {
  return problem_.empty() ? engine_.errors().message() : problem_;
}

void TrainingSteps::RunWindow() {
  if (!problem().empty()) {
    return;
  }
  if (way_.on_device) {
    RunOnDevice();
  } else {
    RunAndTransfer();
  }
  ++window_;
}

void TrainingSteps::RunAndTransfer() {
  for (uint32_t i = 0; i < way_.n_push; ++i) {
    EngineResult result;
    engine_.SetParameters(Host(0));
    engine_.Train(data_.All(), StepKey{1, 0, step_++, {}}, Host(1), &result);
  }
}

void TrainingSteps::RunOnDevice() {
  engine_.SetParameters(Host(0));
  float* const moved = way_.local_update ? moved_[window_ % 2]->data() : nullptr;
  if (way_.local_update) {
    // The push in flight, which the fetch does not contain.
    vectors_.Add(moved_[(window_ + 1) % 2]->data(), vectors_.parameters(), floats_);
  }
  for (uint32_t i = 0; i < way_.n_push; ++i) {
    EngineResult result;
    engine_.TrainOnDevice(data_.All(), StepKey{1, 0, step_++, {}}, &result);
    if (sum_ != nullptr && i == 0) {
      vectors_.Copy(vectors_.gradient(), sum_->data(), floats_);
    } else if (sum_ != nullptr) {
      vectors_.Add(vectors_.gradient(), sum_->data(), floats_);
    }
    if (way_.local_update) {
      OptimizerStep adagrad;
      adagrad.rule = OptimizerRule::kAdagrad;
      adagrad.rate = kRate;
      adagrad.epsilon = kEpsilon;
      vectors_.Update(adagrad, state_->data(), 1, moved, i == 0);
    }
  }
  Finish();
  push_ = vectors_.Read(sum_ == nullptr ? vectors_.gradient() : sum_->data(),
                        Host(1 + window_ % 2).data(), floats_);
}

void TrainingSteps::Finish() {
  if (push_ != nullptr) {
    const std::string problem = push_->Await();
    problem_ = problem_.empty() ? problem : problem_;
    push_ = nullptr;
  }
}

}  // namespace monsoon::cuda::testing
