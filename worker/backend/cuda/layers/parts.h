// Parts of a layer's memory, one after the other.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {

class Parts {
 public:
  // The next part, of so many bytes: where it begins.
  uint64_t Take(uint64_t bytes) {
    const uint64_t at = end_;
    end_ += Aligned(bytes);
    return at;
  }
  uint64_t Floats(uint64_t count) { return Take(count * sizeof(float)); }
  // Of a product's factor, if it has to be cast.
  uint64_t Halves(Precision precision, uint64_t count) {
    return Take(IsHalf(precision) ? count * sizeof(uint16_t) : 0);
  }
  uint64_t bytes() const { return end_; }

 private:
  uint64_t end_ = 0;
};

}  // namespace monsoon::cuda
