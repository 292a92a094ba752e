// Engine's part that takes parameters to the device and gradients from it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/vector_kernels.h"
#include "worker/backend/cuda/layers/engine.h"

namespace monsoon::cuda {
namespace {

// A piece of a tensor is copied to pinned memory while the one before is on its
// way to the device.
constexpr uint64_t kUploadFloats = uint64_t{1} << 20;

}  // namespace

std::vector<TensorSlot> Engine::SlotsOf(size_t layer) const {
  std::vector<TensorSlot> slots;
  for (const TensorSlot& slot : {plans_[layer].weight, plans_[layer].bias}) {
    if (slot.size > 0) {
      slots.push_back(slot);
    }
  }
  return slots;
}

float* Engine::WholeVector(Buffer& buffer) {
  if (buffer.bytes() == 0) {
    buffer = Buffer(Buffer::Place::kPinned, parameter_floats_ * sizeof(float), errors_);
  }
  return buffer.as<float>();
}

void Engine::SetParameters(std::span<const float> parameters) {
  new_parameters_ = parameters.data();
  late_adds_.clear();
  parameters_locked_ = made_ && IsPageLocked(parameters.data(), parameters.size_bytes());
  for (Transfer& transfer : transfers_) {
    transfer.outdated = true;
  }
}

bool Engine::outdated() const {
  return std::any_of(transfers_.begin(), transfers_.end(),
                     [](const Transfer& transfer) { return transfer.outdated; });
}

void Engine::AwaitVectors() {
  if (std::exchange(vectors_pending_, false)) {
    compute_->Record(*vectors_done_);
    upload_->Wait(*vectors_done_);
  }
}

void Engine::UploadAll() {
  const bool whole = std::all_of(transfers_.begin(), transfers_.end(),
                                 [](const Transfer& transfer) { return transfer.outdated; });
  if (whole && parameters_locked_) {
    AwaitVectors();
    UploadTensor(TensorSlot{0, parameter_floats_});
    upload_->Record(transfers_.back().uploaded);
    for (Transfer& transfer : transfers_) {
      transfer.outdated = !errors_.ok();
    }
    return;
  }
  for (size_t i = 0; i < transfers_.size(); ++i) {
    UploadLayer(i);
  }
}

void Engine::UploadLayer(size_t layer) {
  Transfer& transfer = transfers_[layer];
  if (!transfer.outdated) {
    return;
  }
  AwaitVectors();
  for (const TensorSlot& slot : SlotsOf(layer)) {
    UploadTensor(slot);
  }
  upload_->Record(transfer.uploaded);
  // After an error it is still to be done.
  transfer.outdated = !errors_.ok();
}

void Engine::UploadTensor(const TensorSlot& slot) {
  const float* const values = new_parameters_ + slot.offset;
  float* const device = parameters_.as<float>() + slot.offset;
  if (parameters_locked_) {
    upload_->CopyToDevice(device, values, slot.size * sizeof(float));
  } else if (float* const pinned = WholeVector(pinned_parameters_); errors_.ok()) {
    for (uint64_t at = 0; at < slot.size; at += kUploadFloats) {
      const uint64_t bytes = std::min(kUploadFloats, slot.size - at) * sizeof(float);
      std::memcpy(pinned + slot.offset + at, values + at, bytes);
      upload_->CopyToDevice(device + at, pinned + slot.offset + at, bytes);
      host_copied_bytes_ += bytes;
    }
  }
  crossed_bytes_ += slot.size * sizeof(float);
  FinishUpload(slot);
}

void Engine::FinishUpload(const TensorSlot& slot) {
  for (const LateAdd& add : late_adds_) {
    const uint64_t begin = std::max(slot.offset, add.to.offset);
    const uint64_t end = std::min(slot.offset + slot.size, add.to.offset + add.to.size);
    if (begin < end) {
      Add(*upload_, AddVector{add.from + (begin - add.to.offset), parameters_.as<float>() + begin},
          end - begin);
    }
  }
  CastParameters(*upload_, slot);
}

void Engine::CastParameters(Stream& stream, const TensorSlot& slot) {
  if (IsHalf(options_.precision)) {
    Cast(stream,
         CastToHalf{HalfOf(options_.precision), parameters_.as<float>() + slot.offset,
                    half_parameters_.as<uint16_t>() + slot.offset},
         slot.size);
  }
}

void Engine::EnqueueGradientEnd(size_t layer, bool download) {
  for (const TensorSlot& slot : SlotsOf(layer)) {
    if (options_.precision == Precision::kFloat16) {
      UnscaleGradient(*compute_,
                      Unscale{staging_.as<StepControl>(), gradient_.as<float>() + slot.offset,
                              &sums_.as<StepSums>()->non_finite},
                      slot.size);
    }
  }
  if (!download || plans_[layer].weight.size == 0) {
    return;
  }
  compute_->Record(transfers_[layer].gradient_ready);
  download_->Wait(transfers_[layer].gradient_ready);
  for (const TensorSlot& slot : SlotsOf(layer)) {
    download_->CopyToHost(download_to_ + slot.offset, gradient_.as<float>() + slot.offset,
                          slot.size * sizeof(float));
    crossed_bytes_ += slot.size * sizeof(float);
  }
  download_->Record(transfers_[layer].downloaded);
}

void Engine::CopyOut(size_t layer) {
  if (download_to_ == gradient_out_) {
    return;
  }
  for (const TensorSlot& slot : SlotsOf(layer)) {
    std::memcpy(gradient_out_ + slot.offset, download_to_ + slot.offset, slot.size * sizeof(float));
    host_copied_bytes_ += slot.size * sizeof(float);
  }
}

}  // namespace monsoon::cuda
