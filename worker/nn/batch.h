// Batch: the samples of one step, as a data source writes and a network reads
// them. Buffers are made once for `capacity` samples; a short batch uses the
// front. Thread safety: none; a batch belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/memory/aligned_floats.h"

namespace monsoon {

struct Batch {
  Batch() = default;
  Batch(size_t capacity, size_t values_per_example)
      : inputs(AlignedFloats::NanFilled(capacity * values_per_example)),
        labels(capacity),
        values(values_per_example) {}

  size_t capacity() const { return labels.size(); }

  AlignedFloats inputs;          // [examples, values], row-major, normalised
  std::vector<uint32_t> labels;  // [capacity], class numbers
  size_t values = 0;             // per example
  size_t examples = 0;           // how many are filled, at most capacity()
};

}  // namespace monsoon
