#include "worker/data/standardised_dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/data/fingerprint.h"

namespace monsoon {
namespace {

// Samples read at once.
constexpr size_t kBatch = 256;
// A deviation below this share of the mean is the rounding of equal values.
constexpr double kRounding = 1e-7;

// Calls `visit` with each sample's values, in order.
template <typename Visit>
absl::Status ForEachSample(const DataSource& source, Visit visit) {
  const uint64_t examples = source.examples();
  Batch batch(std::min<uint64_t>(kBatch, examples), source.format());
  std::vector<uint32_t> indices(batch.capacity());
  for (uint64_t begin = 0; begin < examples; begin += indices.size()) {
    indices.resize(std::min<uint64_t>(indices.size(), examples - begin));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
    RETURN_IF_ERROR(source.Gather(indices, &batch));
    for (size_t n = 0; n < indices.size(); ++n) {
      visit(std::span<const float>(batch.inputs.data() + n * batch.values, batch.values));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FeatureScaling> MeasureFeatures(const DataSource& train) {
  const size_t values = train.values_per_example();
  const auto count = static_cast<double>(train.examples());
  FeatureScaling scaling;
  scaling.mean.assign(values, 0.0);
  scaling.factor.assign(values, 0.0);
  scaling.train_fingerprint = train.Fingerprint();
  // Measured from the first sample, so that constant features have exactly their
  // value as the mean, and large means cost no digits.
  std::vector<double> origin;
  const absl::Status summed = ForEachSample(train, [&](std::span<const float> sample) {
    if (origin.empty()) {
      origin.assign(sample.begin(), sample.end());
    }
    for (size_t i = 0; i < values; ++i) {
      scaling.mean[i] += static_cast<double>(sample[i]) - origin[i];
    }
  });
  RETURN_IF_ERROR(summed);
  for (size_t i = 0; i < values; ++i) {
    scaling.mean[i] = origin[i] + scaling.mean[i] / count;
  }
  std::vector<double> squares(values, 0.0);
  const absl::Status squared = ForEachSample(train, [&](std::span<const float> sample) {
    for (size_t i = 0; i < values; ++i) {
      const double from_mean = static_cast<double>(sample[i]) - scaling.mean[i];
      squares[i] += from_mean * from_mean;
    }
  });
  RETURN_IF_ERROR(squared);
  for (size_t i = 0; i < values; ++i) {
    const double deviation = std::sqrt(squares[i] / count);
    if (deviation > kRounding * std::abs(scaling.mean[i])) {
      scaling.factor[i] = 1.0 / deviation;
    }
  }
  return scaling;
}

StandardisedDataset::StandardisedDataset(std::shared_ptr<const DataSource> raw,
                                         std::shared_ptr<const FeatureScaling> scaling)
    : raw_(std::move(raw)), scaling_(std::move(scaling)) {
  CHECK_EQ(scaling_->mean.size(), raw_->values_per_example());
  CHECK_EQ(scaling_->factor.size(), raw_->values_per_example());
  Fingerprinter fingerprint;
  fingerprint.Add("standardised");
  fingerprint.Add(raw_->Fingerprint());
  fingerprint.Add(scaling_->train_fingerprint);
  fingerprint_ = fingerprint.value();
}

absl::Status StandardisedDataset::Gather(std::span<const uint32_t> indices, Batch* batch) const {
  RETURN_IF_ERROR(raw_->Gather(indices, batch));
  const size_t values = batch->values;
  const double* const mean = scaling_->mean.data();
  const double* const factor = scaling_->factor.data();
  for (size_t n = 0; n < indices.size(); ++n) {
    float* const sample = batch->inputs.data() + n * values;
    for (size_t i = 0; i < values; ++i) {
      sample[i] = static_cast<float>((static_cast<double>(sample[i]) - mean[i]) * factor[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
