#include "ps_server/vector/vector_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/simd/simd_level.h"
#include "ps_server/vector/vector_loops.h"

namespace monsoon {
namespace {

// Floats of a block. Multiple of kDotLanes, so that a block begins with lane 0.
// 2 KiB a vector: the blocks of 40 vectors fit the second-level cache.
constexpr size_t kBlock = 512;
static_assert(kBlock % kDotLanes == 0);
static_assert(kDotLanes == 16, "what the loops have");

const VectorLoops& Loops() {
  return ActiveLoops(simd_baseline::kVectorLoops, simd_avx2::kVectorLoops,
                     simd_avx512::kVectorLoops);
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
  Loops().scale(out.size(), factor, x.data(), out.data());
}

void AxpyVector(double factor, std::span<const float> x, std::span<const float> y,
                std::span<float> out) {
  CHECK_EQ(x.size(), out.size());
  CHECK_EQ(y.size(), out.size());
  Loops().axpy(out.size(), factor, x.data(), y.data(), out.data());
}

void MultiplyVectors(std::span<const float> x, std::span<const float> y, std::span<float> out) {
  CHECK_EQ(x.size(), out.size());
  CHECK_EQ(y.size(), out.size());
  Loops().multiply(out.size(), x.data(), y.data(), out.data());
}

float LargestBelow(double high) {
  const float rounded = static_cast<float>(high);
  return static_cast<double>(rounded) < high
             ? rounded
             : std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

void SelectVector(std::span<const float> in, std::span<const float> by, double low, double high,
                  std::span<float> out) {
  CHECK_EQ(in.size(), out.size());
  CHECK_EQ(by.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double size = std::abs(static_cast<double>(by[i]));
    out[i] = size >= low && size < high ? in[i] : 0.0f;
  }
}

double DotVectors(std::span<const float> x, std::span<const float> y) {
  CHECK_EQ(x.size(), y.size());
  DotLanes lanes = {};
  Loops().add_products(x.size(), x.data(), y.data(), lanes.data());
  return SumLanes(lanes);
}

void CombineVectors(std::span<const double> factors, std::span<const float* const> in,
                    std::span<const float* const> dot_with, std::span<float> out,
                    std::span<double> dots) {
  CHECK_EQ(factors.size(), in.size());
  CHECK_EQ(dot_with.size(), dots.size());
  const VectorLoops& loops = Loops();
  std::vector<DotLanes> lanes(dots.size(), DotLanes{});
  alignas(64) double sum[kBlock];
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, out.size() - begin);
    std::fill_n(sum, size, 0.0);
    for (size_t k = 0; k < in.size(); ++k) {
      loops.add_scaled(size, factors[k], in[k] + begin, sum);
    }
    float* const result = out.data() + begin;
    loops.round(size, sum, result);
    for (size_t k = 0; k < dots.size(); ++k) {
      loops.add_products(size, result, dot_with[k] + begin, lanes[k].data());
    }
  }
  std::transform(lanes.begin(), lanes.end(), dots.begin(), SumLanes);
}

void GramVectors(std::span<const float* const> rows, std::span<const float* const> columns,
                 size_t size, std::span<double> dots) {
  CHECK_EQ(dots.size(), rows.size() * columns.size());
  const VectorLoops& loops = Loops();
  std::vector<DotLanes> lanes(dots.size(), DotLanes{});
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t block = std::min(kBlock, size - begin);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        loops.add_products(block, rows[i] + begin, columns[j] + begin,
                           lanes[i * columns.size() + j].data());
      }
    }
  }
  std::transform(lanes.begin(), lanes.end(), dots.begin(), SumLanes);
}

}  // namespace monsoon
