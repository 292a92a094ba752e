// The stand-in for gemm.cc: the column-major product that cuBLAS would be asked
// for, by its definition, in double.
#include "worker/backend/cuda/gemm.h"
#include "worker/backend/cuda/host_runtime.h"

namespace monsoon::cuda {
namespace {

// Element (row, column) of op(matrix), column-major with leading dimension ld.
double At(Precision precision, const void* matrix, int ld, bool transpose, int row, int column) {
  const int64_t i =
      transpose ? static_cast<int64_t>(row) * ld + column : static_cast<int64_t>(column) * ld + row;
  if (IsHalf(precision)) {
    return FromHalf(HalfOf(precision), static_cast<const uint16_t*>(matrix)[i]);
  }
  return static_cast<const float*>(matrix)[i];
}

}  // namespace

Gemm::Gemm(Stream& stream, Precision precision) : stream_(stream), precision_(precision) {}

Gemm::~Gemm() = default;

void Gemm::Multiply(const RowMajorProduct& product) {
  const ColumnMajorProduct p = ToColumnMajor(product);
  EnqueueOnHost(stream_, [p, precision = precision_, accumulate = product.accumulate] {
    for (int column = 0; column < p.n; ++column) {
      for (int row = 0; row < p.m; ++row) {
        double sum = 0;
        for (int i = 0; i < p.k; ++i) {
          sum += At(precision, p.a, p.lda, p.transpose_a, row, i) *
                 At(precision, p.b, p.ldb, p.transpose_b, i, column);
        }
        float& c = p.c[static_cast<int64_t>(column) * p.ldc + row];
        c = static_cast<float>(accumulate ? c + sum : sum);
      }
    }
  });
}

std::string Gemm::Version() const { return "host products"; }

}  // namespace monsoon::cuda
