// The stand-in for gemm.cc: the column-major product that cuBLAS would be asked
// for, by its definition, in double. A bias runs along the rows, as in cuBLASLt.
#include <vector>

#include "worker/backend/cuda/host/host_runtime.h"
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/gemm.h"

namespace monsoon::cuda {
namespace {

double At(Precision precision, const void* matrix, int64_t i) {
  if (IsHalf(precision)) {
    return FromHalf(HalfOf(precision), static_cast<const uint16_t*>(matrix)[i]);
  }
  return static_cast<const float*>(matrix)[i];
}

// [outer, inner] of a factor: element (o, i) lies at o * ld + i when `inner_first`
// (the inner number runs along a column), else at i * ld + o.
std::vector<double> Unpack(Precision precision, const void* matrix, int ld, bool inner_first,
                           int outer, int inner) {
  std::vector<double> values(static_cast<size_t>(outer) * static_cast<size_t>(inner));
  size_t next = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      values[next++] = At(precision, matrix, inner_first ? o * ld + i : i * ld + o);
    }
  }
  return values;
}

void RunOne(const ColumnMajorProduct& p, Precision precision, bool accumulate) {
  // op(a) is [m, k]: not transposed, k runs across columns. op(b) is [k, n].
  const std::vector<double> a = Unpack(precision, p.a, p.lda, p.transpose_a, p.m, p.k);
  const std::vector<double> b = Unpack(precision, p.b, p.ldb, !p.transpose_b, p.n, p.k);
  for (int column = 0; column < p.n; ++column) {
    const double* right = b.data() + static_cast<int64_t>(column) * p.k;
    for (int row = 0; row < p.m; ++row) {
      const double* left = a.data() + static_cast<int64_t>(row) * p.k;
      double sum = 0;
      for (int i = 0; i < p.k; ++i) {
        sum += left[i] * right[i];
      }
      float& c = p.c[static_cast<int64_t>(column) * p.ldc + row];
      c = static_cast<float>(accumulate ? c + sum : sum);
    }
  }
}

const void* Skip(Precision precision, const void* matrices, int64_t elements) {
  return static_cast<const char*>(matrices) + elements * (IsHalf(precision) ? 2 : 4);
}

void Run(const ColumnMajorProduct& p, Precision precision, bool accumulate) {
  for (int64_t i = 0; i < p.batch; ++i) {
    ColumnMajorProduct one = p;
    one.a = Skip(precision, p.a, i * p.stride_a);
    one.b = Skip(precision, p.b, i * p.stride_b);
    one.c = p.c + i * p.stride_c;
    RunOne(one, precision, accumulate);
  }
}

}  // namespace

Gemm::Gemm(Stream& stream, Precision precision, bool fuse_bias)
    : stream_(stream), precision_(precision), fuse_bias_(fuse_bias) {}

Gemm::~Gemm() = default;

void Gemm::Multiply(const RowMajorProduct& product) {
  const ColumnMajorProduct p = ToColumnMajor(product);
  EnqueueOnHost(stream_, [p, precision = precision_, accumulate = product.accumulate] {
    Run(p, precision, accumulate);
  });
}

void Gemm::MultiplyAndAddBias(const RowMajorProduct& product, const float* bias) {
  if (!fuse_bias_) {
    Multiply(product);
    AddBiasToRows(stream_, AddBias{bias, static_cast<uint32_t>(product.n), product.c},
                  product.m * product.n);
    return;
  }
  const ColumnMajorProduct p = ToColumnMajor(product);
  EnqueueOnHost(stream_, [p, precision = precision_, bias] {
    Run(p, precision, false);
    for (int64_t column = 0; column < p.n; ++column) {
      for (int64_t row = 0; row < p.m; ++row) {
        p.c[column * p.ldc + row] += bias[row];
      }
    }
  });
}

std::string Gemm::fusion_failure() const { return ""; }

std::string Gemm::Version() const { return "host products"; }

}  // namespace monsoon::cuda
