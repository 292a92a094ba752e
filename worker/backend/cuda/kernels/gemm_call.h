// A matrix product as this backend states it, row-major, and as cuBLAS takes it,
// column-major. Plain arithmetic, tested without a GPU.
#pragma once

#include <cstdint>

namespace monsoon::cuda {

// c[m, n] = beta * c + op(a)[m, k] op(b)[k, n], all row-major and dense. a is
// stored [m, k], or [k, m] when transposed; b [k, n], or [n, k].
//
// A batch is so many of them in one call, each from the one before by a stride in
// elements; stride 0: the same factor for all. The c's must not overlap.
struct RowMajorProduct {
  bool transpose_a = false;
  bool transpose_b = false;
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  float* c = nullptr;
  bool accumulate = false;  // beta = 1, else 0
  uint64_t batch = 1;
  uint64_t stride_a = 0;
  uint64_t stride_b = 0;
  uint64_t stride_c = 0;
};

// The arguments of cublasGemmStridedBatchedEx, in its order and its names.
struct ColumnMajorProduct {
  bool transpose_a;
  bool transpose_b;
  int m, n, k;
  const void* a;
  int lda;
  int64_t stride_a;
  const void* b;
  int ldb;
  int64_t stride_b;
  float* c;
  int ldc;
  int64_t stride_c;
  int batch;
};

// A row-major matrix read column-major is its transpose, so the transposed
// product c^T = op(b)^T op(a)^T is asked for.
inline ColumnMajorProduct ToColumnMajor(const RowMajorProduct& p) {
  return ColumnMajorProduct{
      p.transpose_b,
      p.transpose_a,
      static_cast<int>(p.n),
      static_cast<int>(p.m),
      static_cast<int>(p.k),
      p.b,
      static_cast<int>(p.transpose_b ? p.k : p.n),
      static_cast<int64_t>(p.stride_b),
      p.a,
      static_cast<int>(p.transpose_a ? p.m : p.k),
      static_cast<int64_t>(p.stride_a),
      p.c,
      static_cast<int>(p.n),
      static_cast<int64_t>(p.stride_c),
      static_cast<int>(p.batch),
  };
}

}  // namespace monsoon::cuda
