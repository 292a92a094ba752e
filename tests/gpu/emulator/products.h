// The products of cuBLAS: C = alpha op(A) op(B) + beta C, column-major, C of float32 and
// summed in float32.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstdint>

#include "tests/gpu/emulator/streams.h"

namespace monsoon::emulator {

enum class FactorType { kFloat32, kTf32, kFloat16, kBfloat16 };

struct Product {
  FactorType type;
  bool transpose_a;
  bool transpose_b;
  int m;
  int n;
  int k;
  float alpha;
  float beta;
  uint64_t a;
  uint64_t b;
  uint64_t c;
  int lda;
  int ldb;
  int ldc;
  // Strided batches; 1: one product.
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_c = 0;
  int count = 1;
  // Of m floats, added to each column of C; 0: none.
  uint64_t bias = 0;
};

// cuBLAS's own conditions; reported if not met.
bool IsValid(const Product& product);
// The factors, the bias and C must be allocated and, but for C with beta 0, written.
void EnqueueProduct(Stream& stream, const Product& product);

}  // namespace monsoon::emulator
