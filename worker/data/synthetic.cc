#include "worker/data/synthetic.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "worker/data/fingerprint.h"

namespace monsoon {
namespace {

// No class has this number, so noise and centres never share a stream.
constexpr uint32_t kNoiseStream = std::numeric_limits<uint32_t>::max();

class SyntheticDataset : public DataSource {
 public:
  SyntheticDataset(const SyntheticSource& source, size_t values, uint64_t examples,
                   const Normalisation& normalisation)
      : source_(source),
        values_(values),
        examples_(examples),
        normalisation_(normalisation),
        noise_(source.noise() == 0 ? 1.0f : static_cast<float>(source.noise())),
        centers_(source.classes() * values) {
    for (uint32_t label = 0; label < source.classes(); ++label) {
      const PhiloxStream stream(source.center_seed(), StreamKind::kSynthetic, label);
      for (size_t i = 0; i < values; ++i) {
        centers_[label * values + i] = stream.Normal(i);
      }
    }
  }

  uint64_t examples() const override { return examples_; }
  SampleFormat format() const override { return {.values = values_}; }

  uint32_t Label(uint64_t index) const { return static_cast<uint32_t>(index % source_.classes()); }

  // Before normalisation.
  void Sample(uint64_t index, float* out) const {
    const PhiloxStream noise(source_.seed(), StreamKind::kSynthetic, kNoiseStream);
    const float* center = centers_.data() + Label(index) * values_;
    for (size_t i = 0; i < values_; ++i) {
      out[i] = center[i] + noise_ * noise.Normal(index * values_ + i);
    }
  }

  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override {
    CHECK_LE(indices.size(), batch->capacity());
    CHECK_EQ(batch->values, values_);
    const auto scale = static_cast<float>(normalisation_.scale);
    const auto offset = static_cast<float>(-normalisation_.mean * normalisation_.scale);
    for (size_t n = 0; n < indices.size(); ++n) {
      float* out = batch->inputs.data() + n * values_;
      Sample(indices[n], out);
      for (size_t i = 0; i < values_; ++i) {
        out[i] = out[i] * scale + offset;
      }
      batch->labels[n] = Label(indices[n]);
    }
    batch->examples = indices.size();
    return absl::OkStatus();
  }

  uint64_t Fingerprint() const override {
    Fingerprinter fingerprint;
    fingerprint.Add("synthetic");
    fingerprint.Add(examples_);
    fingerprint.Add(static_cast<uint64_t>(values_));
    fingerprint.Add(static_cast<uint64_t>(source_.classes()));
    fingerprint.Add(source_.seed());
    fingerprint.Add(source_.center_seed());
    fingerprint.Add(static_cast<double>(noise_));
    fingerprint.Add(normalisation_.mean);
    fingerprint.Add(normalisation_.scale);
    return fingerprint.value();
  }

 private:
  SyntheticSource source_;
  size_t values_;
  uint64_t examples_;
  Normalisation normalisation_;
  float noise_;
  std::vector<float> centers_;  // [classes, values]
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> MakeSynthetic(const SyntheticSource& source,
                                                          size_t values, uint64_t limit,
                                                          const Normalisation& normalisation) {
  const uint64_t examples =
      limit == 0 ? source.examples() : std::min<uint64_t>(limit, source.examples());
  if (examples == 0 || examples > std::numeric_limits<uint32_t>::max() || source.classes() == 0 ||
      values == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a synthetic data set of ", examples, " examples of ", values, " values in ",
                     source.classes(), " classes; each must be at least 1, examples below 2^32"));
  }
  auto made = std::make_unique<SyntheticDataset>(source, values, examples, normalisation);
  if (examples * values * sizeof(float) > kSyntheticMemoryBytes) {
    return std::unique_ptr<DataSource>(std::move(made));
  }
  std::vector<float> floats(examples * values);
  std::vector<uint32_t> labels(examples);
  for (uint64_t i = 0; i < examples; ++i) {
    made->Sample(i, floats.data() + i * values);
    labels[i] = made->Label(i);
  }
  return std::unique_ptr<DataSource>(
      new InMemoryDataset({}, std::move(floats), std::move(labels), normalisation));
}

}  // namespace monsoon
