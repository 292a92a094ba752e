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

uint64_t Answers::examples() const {
  return labels_per_example > 0    ? labels.size() / labels_per_example
         : targets_per_example > 0 ? targets.size() / targets_per_example
                                   : 0;
}

SampleFormat Answers::FormatOf(size_t values) const {
  return {.values = values,
          .labels = labels_per_example,
          .targets = targets_per_example,
          .weighted = !weights.empty()};
}

void Answers::CopyTo(size_t index, size_t n, Batch* batch) const {
  std::copy_n(labels.data() + index * labels_per_example, labels_per_example,
              batch->labels.data() + n * labels_per_example);
  std::copy_n(targets.data() + index * targets_per_example, targets_per_example,
              batch->targets.data() + n * targets_per_example);
  if (!weights.empty()) {
    batch->weights.data()[n] = weights[index];
  }
}

uint64_t FingerprintOf(uint64_t examples, const SampleFormat& format,
                       const Normalisation& normalisation, const ContentHashes& content) {
  Fingerprinter fingerprint;
  fingerprint.Add(examples);
  for (const size_t count : {format.values, format.labels, format.targets}) {
    fingerprint.Add(static_cast<uint64_t>(count));
  }
  fingerprint.Add(normalisation.mean);
  fingerprint.Add(normalisation.scale);
  fingerprint.Add(static_cast<uint64_t>(normalisation.raw));
  fingerprint.Add(static_cast<uint64_t>(content.bytes));
  for (const ContentHash* const part :
       {&content.values, &content.labels, &content.targets, &content.weights}) {
    fingerprint.Add(*part);
  }
  return fingerprint.value();
}

InMemoryDataset::InMemoryDataset(std::vector<uint8_t> bytes, std::vector<float> floats,
                                 Answers answers, Normalisation normalisation)
    : bytes_(std::move(bytes)),
      floats_(std::move(floats)),
      answers_(std::move(answers)),
      examples_(answers_.examples()),
      normalisation_(normalisation) {
  CHECK_GT(examples_, 0u);
  CHECK_NE(bytes_.empty(), floats_.empty());
  const size_t stored = bytes_.size() + floats_.size();
  CHECK_EQ(stored % examples_, 0u);
  CHECK_EQ(answers_.labels.size(), examples_ * answers_.labels_per_example);
  CHECK_EQ(answers_.targets.size(), examples_ * answers_.targets_per_example);
  CHECK_EQ(answers_.weights.size() % examples_, 0u);
  values_ = stored / examples_;
  ContentHashes content{.bytes = !bytes_.empty()};
  content.values.Append(bytes_);
  content.values.Append(Bytes(floats_));
  content.labels.Append(Bytes(answers_.labels));
  content.targets.Append(Bytes(answers_.targets));
  content.weights.Append(Bytes(answers_.weights));
  fingerprint_ = FingerprintOf(examples_, format(), normalisation_, content);
  UseHugePages(bytes_);
  UseHugePages(Bytes(floats_));
}

absl::Status InMemoryDataset::Gather(std::span<const uint32_t> indices, Batch* batch) const {
  CHECK_LE(indices.size(), batch->capacity());
  CHECK(batch->format() == format());
  const NormaliseLoops& loops = Loops();
  const double unit = bytes_.empty() || normalisation_.raw ? 1.0 : 1.0 / 255.0;
  const auto factor = static_cast<float>(normalisation_.scale * unit);
  const auto offset = static_cast<float>(-normalisation_.mean * normalisation_.scale);
  for (size_t i = 0; i < std::min(kAhead, indices.size()); ++i) {
    PrefetchSample(indices[i]);
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK_LT(indices[i], examples_);
    if (i + kAhead < indices.size()) {
      PrefetchSample(indices[i + kAhead]);
    }
    float* out = batch->inputs.data() + i * values_;
    if (bytes_.empty()) {
      loops.floats(values_, factor, offset, floats_.data() + indices[i] * values_, out);
    } else {
      loops.bytes(values_, factor, offset, bytes_.data() + indices[i] * values_, out);
    }
    answers_.CopyTo(indices[i], i, batch);
  }
  batch->examples = indices.size();
  return absl::OkStatus();
}

void InMemoryDataset::PrefetchSample(size_t index) const {
  if (index >= examples_) {
    return;
  }
  if (bytes_.empty()) {
    Prefetch(floats_.data() + index * values_, values_ * sizeof(float));
  } else {
    Prefetch(bytes_.data() + index * values_, values_);
  }
  if (answers_.labels_per_example > 0) {
    Prefetch(answers_.labels.data() + index * answers_.labels_per_example, 1);
  }
}

}  // namespace monsoon
