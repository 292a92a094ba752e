#include "ps_server/vector/vector_kernels.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace monsoon {
namespace {

// Floats of a block. Multiple of kDotLanes, so that a block begins with lane 0.
// 2 KiB a vector: the blocks of 40 vectors fit the second-level cache.
constexpr size_t kBlock = 512;
static_assert(kBlock % kDotLanes == 0);

// Adds the products of a block that begins with lane 0.
void AddProducts(const float* x, const float* y, size_t size, DotLanes* lanes) {
  DotLanes sum = *lanes;
  size_t i = 0;
  for (; i + kDotLanes <= size; i += kDotLanes) {
    for (size_t lane = 0; lane < kDotLanes; ++lane) {
      sum[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
    }
  }
  for (size_t lane = 0; i < size; ++i, ++lane) {
    sum[lane] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  *lanes = sum;
}

}  // namespace

double SumLanes(const DotLanes& lanes) {
  double sum = 0.0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

void ScaleVector(double factor, std::span<const float> x, std::span<float> out) {
  CHECK_EQ(x.size(), out.size());
  const float* __restrict in = x.data();
  float* __restrict result = out.data();
  for (size_t i = 0; i < out.size(); ++i) {
    result[i] = static_cast<float>(factor * static_cast<double>(in[i]));
  }
}

void AxpyVector(double factor, std::span<const float> x, std::span<const float> y,
                std::span<float> out) {
  CHECK_EQ(x.size(), out.size());
  CHECK_EQ(y.size(), out.size());
  const float* __restrict a = x.data();
  const float* __restrict b = y.data();
  float* __restrict result = out.data();
  for (size_t i = 0; i < out.size(); ++i) {
    result[i] = static_cast<float>(factor * static_cast<double>(a[i]) + static_cast<double>(b[i]));
  }
}

void MultiplyVectors(std::span<const float> x, std::span<const float> y, std::span<float> out) {
  CHECK_EQ(x.size(), out.size());
  CHECK_EQ(y.size(), out.size());
  const float* __restrict a = x.data();
  const float* __restrict b = y.data();
  float* __restrict result = out.data();
  for (size_t i = 0; i < out.size(); ++i) {
    result[i] = a[i] * b[i];  // the product of two floats is exact in double
  }
}

double DotVectors(std::span<const float> x, std::span<const float> y) {
  CHECK_EQ(x.size(), y.size());
  DotLanes lanes = {};
  AddProducts(x.data(), y.data(), x.size(), &lanes);
  return SumLanes(lanes);
}

void CombineVectors(std::span<const double> factors, std::span<const float* const> in,
                    std::span<const float* const> dot_with, std::span<float> out,
                    std::span<double> dots) {
  CHECK_EQ(factors.size(), in.size());
  CHECK_EQ(dot_with.size(), dots.size());
  std::vector<DotLanes> lanes(dots.size(), DotLanes{});
  alignas(64) double sum[kBlock];
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, out.size() - begin);
    std::fill_n(sum, size, 0.0);
    for (size_t k = 0; k < in.size(); ++k) {
      const double factor = factors[k];
      const float* __restrict x = in[k] + begin;
      for (size_t i = 0; i < size; ++i) {
        sum[i] += factor * static_cast<double>(x[i]);
      }
    }
    float* result = out.data() + begin;
    for (size_t i = 0; i < size; ++i) {
      result[i] = static_cast<float>(sum[i]);
    }
    for (size_t k = 0; k < dots.size(); ++k) {
      AddProducts(result, dot_with[k] + begin, size, &lanes[k]);
    }
  }
  std::transform(lanes.begin(), lanes.end(), dots.begin(), SumLanes);
}

void GramVectors(std::span<const float* const> rows, std::span<const float* const> columns,
                 size_t size, std::span<double> dots) {
  CHECK_EQ(dots.size(), rows.size() * columns.size());
  std::vector<DotLanes> lanes(dots.size(), DotLanes{});
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t block = std::min(kBlock, size - begin);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        AddProducts(rows[i] + begin, columns[j] + begin, block, &lanes[i * columns.size() + j]);
      }
    }
  }
  std::transform(lanes.begin(), lanes.end(), dots.begin(), SumLanes);
}

}  // namespace monsoon
