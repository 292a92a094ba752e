// InMemoryDataset: all samples in memory as they are stored (bytes or floats),
// normalised when they are gathered.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/data/data_source.h"
#include "worker/data/fingerprint.h"

namespace monsoon {

// A normalised value is (value - mean) * scale; bytes are divided by 255 before, unless `raw`.
struct Normalisation {
  double mean = 0;
  double scale = 1;
  bool raw = false;
};

// What is known of samples beside their values.
struct Answers {
  Answers() = default;
  // A label each; a number is as good as a table of them.
  Answers(std::vector<uint32_t> of_each)  // NOLINT(google-explicit-constructor)
      : labels(std::move(of_each)) {}

  std::vector<uint32_t> labels;  // [examples, labels_per_example]
  size_t labels_per_example = 1;
  std::vector<float> targets;  // [examples, targets_per_example], or empty
  size_t targets_per_example = 0;
  std::vector<float> weights;  // [examples], or empty: each counts once

  // By labels, or else targets.
  uint64_t examples() const;
  // Of samples of so many values.
  SampleFormat FormatOf(size_t values) const;
  // Copies those of sample `index` to place `n` of the batch.
  void CopyTo(size_t index, size_t n, Batch* batch) const;
};

// What all data sets of samples and answers are recognised by, wherever they keep them: as a model
// sees them but for the normalisation.
struct ContentHashes {
  bool bytes = false;  // values are bytes, or else float32
  ContentHash values, labels, targets, weights;
};
uint64_t FingerprintOf(uint64_t examples, const SampleFormat& format,
                       const Normalisation& normalisation, const ContentHashes& content);

class InMemoryDataset : public DataSource {
 public:
  // Sample-major pixels: exactly one of `bytes` and `floats` is not empty, and
  // holds as many samples as `answers`; at least one.
  InMemoryDataset(std::vector<uint8_t> bytes, std::vector<float> floats, Answers answers,
                  Normalisation normalisation);

  uint64_t examples() const override { return examples_; }
  SampleFormat format() const override { return answers_.FormatOf(values_); }
  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override;
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  void PrefetchSample(size_t index) const;

  std::vector<uint8_t> bytes_;
  std::vector<float> floats_;
  Answers answers_;
  uint64_t examples_ = 0;
  size_t values_ = 0;
  Normalisation normalisation_;
  uint64_t fingerprint_ = 0;
};

}  // namespace monsoon
