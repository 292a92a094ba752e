#include "worker/backend/cuda/training.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon::cuda {
namespace {

class DeviceFloats : public PlacedFloats {
 public:
  DeviceFloats(std::unique_ptr<EngineVectors::Memory> memory, size_t floats)
      : PlacedFloats({memory->data(), floats}), memory_(std::move(memory)) {}

 private:
  const std::unique_ptr<EngineVectors::Memory> memory_;
};

class EventReading : public DeviceTraining::Reading {
 public:
  EventReading(std::unique_ptr<Event> done, uint32_t device_index)
      : done_(std::move(done)), device_index_(device_index) {}

  // The device must not write to memory that goes.
  ~EventReading() override { done_->Await(); }

  absl::Status Await() override {
    const std::string problem = done_->Await();
    return problem.empty() ? absl::OkStatus()
                           : absl::InternalError(absl::StrCat("GPU ", device_index_,
                                                              ": a copy to the host: ", problem));
  }

 private:
  const std::unique_ptr<Event> done_;
  const uint32_t device_index_;
};

}  // namespace

absl::Status ToStatus(const ErrorLog& errors, uint32_t device_index) {
  const std::string where = absl::StrCat("GPU ", device_index, ": ", errors.message());
  switch (errors.kind()) {
    case ErrorLog::Kind::kNone:
      return absl::OkStatus();
    case ErrorLog::Kind::kOutOfMemory:
      return absl::ResourceExhaustedError(where);
    case ErrorLog::Kind::kNotAvailable:
      return absl::FailedPreconditionError(where);
    case ErrorLog::Kind::kDevice:
      break;
  }
  return absl::InternalError(
      absl::StrCat(where, "; what this GPU held is lost, this replica must leave"));
}

absl::StatusOr<std::unique_ptr<PlacedFloats>> EngineTraining::Allocate(size_t floats, float fill) {
  std::string problem;
  std::unique_ptr<EngineVectors::Memory> memory = vectors_.Allocate(floats, fill, &problem);
  if (memory == nullptr) {
    RETURN_IF_ERROR(status());
    return absl::ResourceExhaustedError(absl::StrCat("GPU ", device_index_, ": ", problem));
  }
  return std::make_unique<DeviceFloats>(std::move(memory), floats);
}

void EngineTraining::Fill(std::span<float> to, float value) {
  vectors_.Fill(to.data(), to.size(), value);
}

void EngineTraining::Add(std::span<const float> from, std::span<float> to) {
  CHECK_EQ(from.size(), to.size());
  vectors_.Add(from.data(), to.data(), to.size());
}

void EngineTraining::Copy(std::span<const float> from, std::span<float> to) {
  CHECK_EQ(from.size(), to.size());
  vectors_.Copy(from.data(), to.data(), to.size());
}

void EngineTraining::Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w,
                           std::span<float> state, std::span<const float> g, std::span<float> moved,
                           bool fresh) {
  const std::optional<OptimizerStep> step = kernel.StepAt(k);
  CHECK(step.has_value());
  CHECK(w.data() == vectors_.parameters() && g.data() == vectors_.gradient());
  const int slots = kernel.state_slots();
  CHECK_EQ(state.size(), floats_ * static_cast<size_t>(slots));
  vectors_.Update(*step, state.data(), slots, moved.data(), fresh);
}

absl::StatusOr<std::unique_ptr<DeviceTraining::Reading>> EngineTraining::Read(
    std::span<const float> from, std::span<float> to) {
  CHECK_EQ(from.size(), to.size());
  std::unique_ptr<Event> done = vectors_.Read(from.data(), to.data(), to.size());
  if (done == nullptr) {
    return status();
  }
  return std::make_unique<EventReading>(std::move(done), device_index_);
}

absl::Status EngineTraining::PrepareFor(DeviceTraining& other) {
  std::string problem;
  if (vectors_.PrepareFor(static_cast<EngineTraining&>(other).vectors_, &problem)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(status());
  return absl::ResourceExhaustedError(absl::StrCat("GPU ", device_index_, ": ", problem));
}

void EngineTraining::AddToGradient(std::span<const float> theirs, DeviceTraining& other) {
  vectors_.AddToGradient(theirs.data(), static_cast<EngineTraining&>(other).vectors_);
}

void EngineTraining::AddToSum(double weight, std::span<const float> theirs, DeviceTraining& other,
                              std::span<float> sum, bool fresh) {
  CHECK_EQ(sum.size(), 2 * floats_);
  vectors_.AddToSum(weight, theirs.data(), static_cast<EngineTraining&>(other).vectors_,
                    reinterpret_cast<double*>(sum.data()), fresh);
}

void EngineTraining::Round(std::span<const float> sum, std::span<float> to) {
  CHECK_EQ(sum.size(), 2 * floats_);
  vectors_.Round(reinterpret_cast<const double*>(sum.data()), to.data());
}

void EngineTraining::Encode(Half half, std::span<const float> from, std::span<float> residual,
                            std::span<float> to) {
  CHECK(from.size() == floats_ && residual.size() == floats_ && 2 * to.size() == floats_);
  vectors_.Encode(half == Half::kBfloat16 ? HalfType::kBfloat16 : HalfType::kFloat16, from.data(),
                  residual.data(), reinterpret_cast<uint16_t*>(to.data()));
}

void EngineTraining::TakeParameters(DeviceTraining& other) {
  vectors_.TakeParameters(static_cast<EngineTraining&>(other).vectors_);
}

}  // namespace monsoon::cuda
