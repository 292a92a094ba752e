#include "worker/data/in_memory_dataset.h"

#include "common/base/check.h"
#include "worker/data/fingerprint.h"

namespace monsoon {
namespace {

template <typename T>
std::span<const uint8_t> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// Written apart so that the compiler vectorises it.
template <typename T>
void Normalise(const T* raw, size_t count, float factor, float offset, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(raw[i]) * factor + offset;
  }
}

}  // namespace

InMemoryDataset::InMemoryDataset(std::vector<uint8_t> bytes, std::vector<float> floats,
                                 std::vector<uint32_t> labels, Normalisation normalisation)
    : bytes_(std::move(bytes)),
      floats_(std::move(floats)),
      labels_(std::move(labels)),
      normalisation_(normalisation) {
  CHECK(!labels_.empty());
  CHECK_NE(bytes_.empty(), floats_.empty());
  const size_t stored = bytes_.size() + floats_.size();
  CHECK_EQ(stored % labels_.size(), 0u);
  values_ = stored / labels_.size();
  Fingerprinter fingerprint;
  fingerprint.Add(static_cast<uint64_t>(labels_.size()));
  fingerprint.Add(static_cast<uint64_t>(values_));
  fingerprint.Add(normalisation_.mean);
  fingerprint.Add(normalisation_.scale);
  fingerprint.AddContent(bytes_);
  fingerprint.AddContent(Bytes(floats_));
  fingerprint.AddContent(Bytes(labels_));
  fingerprint_ = fingerprint.value();
}

void InMemoryDataset::CopySample(size_t index, float* out) const {
  const double unit = bytes_.empty() ? 1.0 : 1.0 / 255.0;
  const auto factor = static_cast<float>(normalisation_.scale * unit);
  const auto offset = static_cast<float>(-normalisation_.mean * normalisation_.scale);
  if (bytes_.empty()) {
    Normalise(floats_.data() + index * values_, values_, factor, offset, out);
  } else {
    Normalise(bytes_.data() + index * values_, values_, factor, offset, out);
  }
}

void InMemoryDataset::Gather(std::span<const uint32_t> indices, Batch* batch) const {
  CHECK_LE(indices.size(), batch->capacity());
  CHECK_EQ(batch->values, values_);
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK_LT(indices[i], labels_.size());
    CopySample(indices[i], batch->inputs.data() + i * values_);
    batch->labels[i] = labels_[indices[i]];
  }
  batch->examples = indices.size();
}

}  // namespace monsoon
