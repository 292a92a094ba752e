#include "common/optimizer/newton_schulz.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/optimizer/active_loops.h"
#include "common/optimizer/matrix_loops.h"
#include "common/optimizer/matrix_product.h"

namespace monsoon {
namespace {

constexpr float kOfX = 3.4445f;
constexpr float kOfS = -4.775f;
constexpr float kOfSquare = 2.0315f;
constexpr double kLeastNorm = 1e-7;

double NormOf(std::span<const float> x) {
  std::array<double, kSquareSums> sums = {};
  ActiveMatrixLoops().squares(x.size(), x.data(), sums.data());
  double all = 0;
  for (const double sum : sums) {
    all += sum;
  }
  return std::sqrt(all);
}

// Of m x n with m >= n, where s = x' x and x = a x + x (b s + c s s). Of that shape both products
// of x with itself read whole rows. `next` has m n floats, `s` n n.
void Step(size_t m, size_t n, float* x, float* next, float* s, std::span<float> packed) {
  const MatrixLoops& loops = ActiveMatrixLoops();
  Multiply({.rows = n,
            .columns = n,
            .inner = m,
            .a = x,
            .a_transposed = true,
            .b = x,
            .symmetric = true,
            .c = s},
           packed);
  // The square lies where the product comes afterwards.
  Multiply({.rows = n,
            .columns = n,
            .inner = n,
            .a = s,
            .a_transposed = true,
            .b = s,
            .symmetric = true,
            .c = next},
           packed);
  loops.mix(n * n, kOfS, s, kOfSquare, next);
  Multiply({.rows = m, .columns = n, .inner = n, .a = x, .b = s, .c = next}, packed);
  loops.mix(m * n, kOfX, x, 1.0f, next);
}

}  // namespace

size_t OrthogonalizeScratch(size_t rows, size_t columns) {
  const size_t smaller = std::min(rows, columns);
  return rows * columns + smaller * smaller + kProductScratch;
}

void Orthogonalize(size_t rows, size_t columns, uint32_t steps, std::span<float> x,
                   std::span<float> scratch) {
  CHECK_EQ(x.size(), rows * columns);
  CHECK(scratch.size() >= OrthogonalizeScratch(rows, columns));
  ActiveMatrixLoops().divide(x.size(), std::max(NormOf(x), kLeastNorm), x.data());
  const bool wide = rows < columns;
  const size_t smaller = std::min(rows, columns);
  float* const other = scratch.data();
  float* const square = other + x.size();
  const std::span<float> packed = scratch.subspan(x.size() + smaller * smaller);
  float* const tall = wide ? other : x.data();
  float* const next = wide ? x.data() : other;
  if (wide) {
    Transpose(rows, columns, x.data(), tall);
  }
  for (uint32_t step = 0; step < steps; ++step) {
    Step(std::max(rows, columns), smaller, tall, next, square, packed);
  }
  if (wide) {
    Transpose(columns, rows, tall, x.data());
  }
}

}  // namespace monsoon
