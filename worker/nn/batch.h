// Batch: the samples of one step, as a data source writes and a network reads
// them. Buffers are made once for `capacity` samples; a short batch uses the
// front. Thread safety: none; a batch belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/memory/aligned_floats.h"

namespace monsoon {

// What a data set has for each of its samples.
struct SampleFormat {
  size_t values = 0;
  size_t labels = 1;   // of a sequence one for each step; 0: targets alone
  size_t targets = 0;  // numbers that a model is to tell
  bool weighted = false;

  bool operator==(const SampleFormat&) const = default;
};

struct Batch {
  Batch() = default;
  Batch(size_t capacity, const SampleFormat& format)
      : inputs(AlignedFloats::NanFilled(capacity * format.values)),
        labels(capacity * format.labels),
        targets(AlignedFloats::NanFilled(capacity * format.targets)),
        weights(AlignedFloats::NanFilled(format.weighted ? capacity : 0)),
        values(format.values),
        labels_per_example(format.labels),
        targets_per_example(format.targets),
        capacity_(capacity) {}
  // With a label each.
  Batch(size_t capacity, size_t values_per_example)
      : Batch(capacity, SampleFormat{.values = values_per_example}) {}

  size_t capacity() const { return capacity_; }
  SampleFormat format() const {
    return {values, labels_per_example, targets_per_example, !weights.span().empty()};
  }

  AlignedFloats inputs;          // [examples, values], row-major, normalised
  std::vector<uint32_t> labels;  // [examples, labels_per_example], class numbers
  AlignedFloats targets;         // [examples, targets_per_example]
  AlignedFloats weights;         // [examples], or empty: each counts once
  size_t values = 0;             // per example
  size_t labels_per_example = 1;
  size_t targets_per_example = 0;
  size_t examples = 0;  // how many are filled, at most capacity()

 private:
  size_t capacity_ = 0;
};

}  // namespace monsoon
