// Engine's part that takes samples and parameters to the device and gradients from it.
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

void Engine::Stage(const Samples& samples, const StepKey& key) {
  const StagingLayout layout(model_, samples.examples);
  char* block = pinned_staging_.as<char>();
  StepControl control = {};
  if (key.samples.empty()) {
    control.dropout_key = DropoutKey(key.seed, kDropoutStream | key.worker, key.step);
    control.augmentation_key = DropoutKey(key.seed, kAugmentationStream | key.worker, key.step);
  } else {
    control.by_sample = 1;
    uint64_t* keys = reinterpret_cast<uint64_t*>(block + layout.sample_keys);
    for (size_t n = 0; n < key.samples.size(); ++n) {
      keys[n] = DropoutKey(key.seed, kSampleDropoutStream, key.samples[n]);
    }
  }
  control.has_targets = samples.targets != nullptr ? 1 : 0;
  std::memcpy(block, &control, sizeof(control));
  StageLoss(samples, layout, block);
  std::memcpy(block + layout.inputs, samples.inputs,
              samples.examples * model_.input() * sizeof(float));
}

void Engine::StageLoss(const Samples& samples, const StagingLayout& layout, char* block) const {
  const LossPlan& loss = model_.loss;
  const uint64_t rows = samples.examples * loss.steps;
  const auto labels = reinterpret_cast<uint32_t*>(block + layout.labels);
  const auto weights = reinterpret_cast<float*>(block + layout.weights);
  const auto targets = reinterpret_cast<float*>(block + layout.targets);
  for (uint64_t r = 0; r < rows; ++r) {
    labels[r] = samples.labels == nullptr ? 0 : samples.labels[r];
    weights[r] = samples.weights == nullptr ? 1.0f : samples.weights[r / loss.steps];
    if (samples.labels != nullptr && labels[r] < loss.class_weights.size()) {
      weights[r] *= loss.class_weights[labels[r]];
    }
  }
  const uint64_t count = samples.examples * TargetFloats(loss);
  if (samples.targets != nullptr && count > 0) {
    std::memcpy(targets, samples.targets, count * sizeof(float));
  } else {
    for (uint64_t i = 0; i < count; ++i) {
      targets[i] = i % loss.outputs == 0 ? static_cast<float>(labels[i / loss.outputs]) : 0.0f;
    }
  }
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
  if (!download || SlotsOf(layer).empty()) {
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
