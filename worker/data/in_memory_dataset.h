// InMemoryDataset: all samples in memory as they are stored (bytes or floats),
// normalised when they are gathered.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/data_source.h"

namespace monsoon {

// A normalised value is (raw - mean) * scale, after bytes were divided by 255.
struct Normalisation {
  double mean = 0;
  double scale = 1;
};

class InMemoryDataset : public DataSource {
 public:
  // Sample-major pixels: exactly one of `bytes` and `floats` is not empty, and
  // holds labels.size() samples; at least one.
  InMemoryDataset(std::vector<uint8_t> bytes, std::vector<float> floats,
                  std::vector<uint32_t> labels, Normalisation normalisation);

  uint64_t examples() const override { return labels_.size(); }
  SampleFormat format() const override { return {.values = values_}; }
  void Gather(std::span<const uint32_t> indices, Batch* batch) const override;
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  void PrefetchSample(size_t index) const;

  std::vector<uint8_t> bytes_;
  std::vector<float> floats_;
  std::vector<uint32_t> labels_;
  size_t values_ = 0;
  Normalisation normalisation_;
  uint64_t fingerprint_ = 0;
};

}  // namespace monsoon
