// Standardisation per feature (Job.standardise of proto/job.proto): x becomes
// (x - mean) / deviation with the numbers of the training set, for the test set
// too.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"

namespace monsoon {

// Of one training set, feature by feature.
struct FeatureScaling {
  std::vector<double> mean;
  // 1 / standard deviation (over n); 0 for a feature that is constant to
  // float32's rounding.
  std::vector<double> factor;
  uint64_t train_fingerprint = 0;  // of the set they were measured on
};

// Reads the whole set twice, in the calling thread; the error is its own.
absl::StatusOr<FeatureScaling> MeasureFeatures(const DataSource& train);

// A data set seen through a scaling. Computed in double, rounded once.
class StandardisedDataset : public DataSource {
 public:
  // The scaling has as many features as `raw` has values.
  StandardisedDataset(std::shared_ptr<const DataSource> raw,
                      std::shared_ptr<const FeatureScaling> scaling);

  uint64_t examples() const override { return raw_->examples(); }
  SampleFormat format() const override { return raw_->format(); }
  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override;
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  const std::shared_ptr<const DataSource> raw_;
  const std::shared_ptr<const FeatureScaling> scaling_;
  uint64_t fingerprint_ = 0;
};

}  // namespace monsoon
