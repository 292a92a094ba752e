// Division by a number that is fixed before a kernel starts: a multiplication and a
// shift, where the GPU's own integer division takes some twenty instructions.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// Exact for all n below 2^31 and divisors from 1 to 2^31. With s the least for which
// d <= 2^s, and m = floor(2^(31 + s) / d) + 1 < 2^32: m d = 2^(31 + s) + e with
// 0 < e <= d <= 2^s, so that n m / 2^(31 + s) exceeds n / d by n e / (d 2^(31 + s)),
// less than 1 / d (Granlund and Montgomery 1994, theorem 4.2).
class Divisor {
 public:
  explicit Divisor(uint32_t divisor) : divisor_(divisor) {
    while ((uint64_t{1} << shift_) < divisor) {
      ++shift_;
    }
    multiplier_ = static_cast<uint32_t>((uint64_t{1} << (31 + shift_)) / divisor + 1);
  }

  MONSOON_PORTABLE uint32_t value() const { return divisor_; }

  MONSOON_PORTABLE uint32_t Quotient(uint32_t n) const {
#ifdef __CUDA_ARCH__
    return __umulhi(2 * n, multiplier_) >> shift_;
#else
    return static_cast<uint32_t>((uint64_t{2 * n} * multiplier_) >> 32) >> shift_;
#endif
  }

  // n = quotient * divisor + the remainder.
  MONSOON_PORTABLE uint32_t Remainder(uint32_t n) const { return n - Quotient(n) * divisor_; }

 private:
  uint32_t divisor_;
  uint32_t multiplier_ = 0;
  uint32_t shift_ = 0;
};

}  // namespace monsoon::cuda
