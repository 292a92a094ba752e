#include "worker/downpour/accumulator.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/wire_formats.h"

namespace monsoon {

absl::Status Accumulation::Await() const {
  if (reading != nullptr) {
    RETURN_IF_ERROR(reading->Await());
  }
  if (negated) {
    std::ranges::transform(gradient, gradient.begin(), std::negate<>());
  }
  return absl::OkStatus();
}

Accumulator::Accumulator(size_t floats, uint32_t n_push, OnBuffer on_buffer, Kind kind)
    : floats_(floats), kind_(kind), n_push_(n_push), on_buffer_(std::move(on_buffer)) {
  CHECK_GE(n_push, 1u);
  CHECK(kind_ != Kind::kEncoded || n_push == 1);
}

void Accumulator::SetSteps(uint32_t n_push) {
  CHECK(kind_ == Kind::kDifferences && n_push >= 1);
  n_push_ = n_push;
}

absl::Status Accumulator::MoveTo(DeviceTraining* device, WireFormat format) {
  CHECK(empty() && kind_ != Kind::kEncoded);
  std::unique_ptr<PlacedFloats> sum, residual, encoded;
  const bool gradients = kind_ == Kind::kGradients;
  if (gradients && n_push_ > 1) {
    ASSIGN_OR_RETURN(sum, device->Allocate(floats_, 0.0f));
  }
  if (gradients && (IsHalf(format))) {
    CHECK_EQ(floats_ % 2, 0u);
    ASSIGN_OR_RETURN(residual, device->Allocate(floats_, 0.0f));
    ASSIGN_OR_RETURN(encoded, device->Allocate(floats_ / 2, 0.0f));
    half_ = format == BFLOAT16 ? DeviceTraining::Half::kBfloat16 : DeviceTraining::Half::kFloat16;
  }
  sum_ = std::move(sum);
  residual_ = std::move(residual);
  encoded_ = std::move(encoded);
  device_ = device;
  return absl::OkStatus();
}

AlignedFloats Accumulator::NewFloats(size_t size) {
  AlignedFloats floats = AlignedFloats::NanFilled(size);
  if (on_buffer_) {
    on_buffer_(&floats);
  }
  return floats;
}

SharedBuffer Accumulator::TakeBuffer() {
  for (const SharedBuffer& buffer : buffers_) {
    if (buffer.use_count() == 1) {
      // After whatever the last holder, in its thread, did with it.
      std::atomic_thread_fence(std::memory_order_acquire);
      return buffer;
    }
  }
  return buffers_.emplace_back(
      std::make_shared<AlignedFloats>(NewFloats(encoded_ == nullptr ? floats_ : floats_ / 2)));
}

std::span<float> Accumulator::step_buffer() {
  if (device_ != nullptr) {
    return {};
  }
  if (steps_ > 0 || kind_ == Kind::kDifferences) {
    if (scratch_.size() != floats_) {
      scratch_ = NewFloats(floats_);
    }
    return scratch_.span();
  }
  if (current_ == nullptr) {
    current_ = TakeBuffer();
  }
  return current_->span();
}

void Accumulator::Add(const SharedMarks& marks, std::span<const TensorSlice> absent) {
  CHECK(!full());
  if (steps_ == 0) {
    base_ = marks;
    absent_.assign(absent.begin(), absent.end());
  } else {
    KeepCommon(absent, &absent_);
  }
  if (kind_ == Kind::kDifferences) {
    // The updater has what the step moved.
  } else if (device_ != nullptr && sum_ != nullptr) {
    if (steps_ == 0) {
      device_->Copy(device_->gradient(), sum_->span());
    } else {
      device_->Add(device_->gradient(), sum_->span());
    }
  } else if (steps_ > 0) {
    float* const sum = current_->data();
    const float* const g = scratch_.data();
    for (size_t i = 0; i < scratch_.size(); ++i) {
      sum[i] += g[i];
    }
  }
  ++steps_;
}

std::vector<DonePart> Accumulator::TakeParts() { return std::exchange(parts_, {}); }

absl::StatusOr<Accumulation> Accumulator::Seal(std::span<const float> moved) {
  CHECK(!empty() || kind_ == Kind::kDifferences);
  const bool difference = kind_ == Kind::kDifferences;
  ASSIGN_OR_RETURN(Accumulation sealed, difference ? SealDifference(moved) : SealGradients());
  sealed.base = std::exchange(base_, nullptr);
  sealed.steps = std::exchange(steps_, 0);
  sealed.absent = std::exchange(absent_, {});
  sealed.parts = TakeParts();
  return sealed;
}

absl::StatusOr<Accumulation> Accumulator::SealDifference(std::span<const float> moved) {
  CHECK_EQ(moved.size(), floats_);
  Accumulation sealed;
  sealed.memory = TakeBuffer();
  sealed.gradient = sealed.memory->span();
  if (device_ == nullptr) {
    std::ranges::transform(moved, sealed.gradient.begin(), std::negate<>());
  } else {
    ASSIGN_OR_RETURN(sealed.reading, device_->Read(moved, sealed.gradient));
    sealed.negated = true;
  }
  return sealed;
}

absl::StatusOr<Accumulation> Accumulator::SealGradients() {
  Accumulation sealed;
  if (device_ != nullptr) {
    current_ = TakeBuffer();
    std::span<float> ready = sum_ == nullptr ? device_->gradient() : sum_->span();
    if (encoded_ != nullptr) {
      device_->Encode(half_, ready, residual_->span(), encoded_->span());
      ready = encoded_->span();
    }
    ASSIGN_OR_RETURN(sealed.reading, device_->Read(ready, current_->span()));
  }
  sealed.memory = std::exchange(current_, nullptr);
  if (encoded_ != nullptr || kind_ == Kind::kEncoded) {
    sealed.encoded = std::as_bytes(sealed.memory->span());
  } else {
    sealed.gradient = sealed.memory->span();
  }
  return sealed;
}

}  // namespace monsoon
