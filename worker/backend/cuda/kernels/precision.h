// What matrix products are computed in; ComputePrecision of backend.h, in plain
// C++.
#pragma once

#include "worker/backend/cuda/kernels/half.h"

namespace monsoon::cuda {

enum class Precision { kFloat32, kTf32, kBfloat16, kFloat16 };

// Whether the factors of a product are uint16_t, and of which format.
inline bool IsHalf(Precision precision) {
  return precision == Precision::kBfloat16 || precision == Precision::kFloat16;
}
inline HalfType HalfOf(Precision precision) {
  return precision == Precision::kFloat16 ? HalfType::kFloat16 : HalfType::kBfloat16;
}

}  // namespace monsoon::cuda
