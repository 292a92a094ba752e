#include "worker/data/in_memory_dataset.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>

#include "common/base/check.h"
#include "common/simd/simd_level.h"
#include "worker/data/fingerprint.h"
#include "worker/data/normalise_loops.h"

namespace monsoon {
namespace {

// Samples fetched ahead of the one that is normalised.
constexpr size_t kAhead = 4;

template <typename T>
std::span<const uint8_t> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

const NormaliseLoops& Loops() {
  return ActiveLoops(simd_baseline::kNormaliseLoops, simd_avx2::kNormaliseLoops,
                     simd_avx512::kNormaliseLoops);
}

// The samples of a batch lie anywhere: without this each begins with a wait for
// memory. Into the second-level cache, as more of them wait there.
void Prefetch(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  for (size_t offset = 0; offset < bytes; offset += kLine) {
    __builtin_prefetch(static_cast<const char*>(begin) + offset, 0, 2);
  }
}

// Moves an array to huge pages where the kernel has them: nearly each sample is
// on a page that no buffer knows. Fashion-MNIST, ns a sample: 400 with 4 KiB
// pages, 250 so.
void UseHugePages(std::span<const uint8_t> bytes) {
#if defined(__linux__)
  constexpr uintptr_t kPage = 2 << 20;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, newer than glibc's headers
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t last = (begin + bytes.size()) / kPage * kPage;
  if (first < last) {
    // Only advice: an answer that it cannot be changes nothing.
    void* const pages = reinterpret_cast<void*>(first);
    madvise(pages, last - first, MADV_HUGEPAGE);
    madvise(pages, last - first, kCollapse);
  }
#endif
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
  UseHugePages(bytes_);
  UseHugePages(Bytes(floats_));
}

void InMemoryDataset::Gather(std::span<const uint32_t> indices, Batch* batch) const {
  CHECK_LE(indices.size(), batch->capacity());
  CHECK_EQ(batch->values, values_);
  const NormaliseLoops& loops = Loops();
  const double unit = bytes_.empty() ? 1.0 : 1.0 / 255.0;
  const auto factor = static_cast<float>(normalisation_.scale * unit);
  const auto offset = static_cast<float>(-normalisation_.mean * normalisation_.scale);
  for (size_t i = 0; i < std::min(kAhead, indices.size()); ++i) {
    PrefetchSample(indices[i]);
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK_LT(indices[i], labels_.size());
    if (i + kAhead < indices.size()) {
      PrefetchSample(indices[i + kAhead]);
    }
    float* out = batch->inputs.data() + i * values_;
    if (bytes_.empty()) {
      loops.floats(values_, factor, offset, floats_.data() + indices[i] * values_, out);
    } else {
      loops.bytes(values_, factor, offset, bytes_.data() + indices[i] * values_, out);
    }
    batch->labels[i] = labels_[indices[i]];
  }
  batch->examples = indices.size();
}

void InMemoryDataset::PrefetchSample(size_t index) const {
  if (index >= labels_.size()) {
    return;
  }
  if (bytes_.empty()) {
    Prefetch(floats_.data() + index * values_, values_ * sizeof(float));
  } else {
    Prefetch(bytes_.data() + index * values_, values_);
  }
  Prefetch(&labels_[index], 1);
}

}  // namespace monsoon
