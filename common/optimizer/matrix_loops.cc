#include "common/optimizer/matrix_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

// Floats of one register, and the sums that stay in registers beside their operands.
#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
constexpr size_t kRows = 12;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
constexpr size_t kRows = 6;
#else
constexpr size_t kLanes = 4;
constexpr size_t kRows = 6;
#endif
constexpr size_t kVectors = 2;
constexpr size_t kColumns = kVectors * kLanes;
static_assert(kTileRows % kRows == 0 && kTileColumns % kColumns == 0);

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
// Part of any array of floats.
typedef float Part __attribute__((vector_size(kLanes * sizeof(float)), may_alias, aligned(4)));

// The piece of a tile whose first row and column a, b and c begin with.
void Piece(size_t depth, const float* a, const float* b, float* c, size_t stride, bool fresh) {
  Lanes sums[kRows][kVectors];
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[i][v] = fresh ? Lanes{} : *reinterpret_cast<const Part*>(c + i * stride + v * kLanes);
    }
  }
  for (size_t k = 0; k < depth; ++k, a += kTileRows, b += kTileColumns) {
    Lanes row[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      row[v] = *reinterpret_cast<const Part*>(b + v * kLanes);
    }
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t v = 0; v < kVectors; ++v) {
        sums[i][v] += row[v] * a[i];
      }
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Part*>(c + i * stride + v * kLanes) = sums[i][v];
    }
  }
}

void Tile(size_t depth, const float* a, const float* b, float* c, size_t stride, bool fresh) {
  for (size_t i = 0; i < kTileRows; i += kRows) {
    for (size_t j = 0; j < kTileColumns; j += kColumns) {
      Piece(depth, a + i, b + j, c + i * stride + j, stride, fresh);
    }
  }
}

void Squares(size_t n, const float* __restrict x, double* __restrict sums) {
  size_t i = 0;
  for (; i + kSquareSums <= n; i += kSquareSums) {
    for (size_t k = 0; k < kSquareSums; ++k) {
      const double value = x[i + k];
      sums[k] += value * value;
    }
  }
  for (size_t k = 0; i + k < n; ++k) {
    const double value = x[i + k];
    sums[k] += value * value;
  }
}

template <bool kNesterov>
void AverageBy(size_t n, float momentum, const float* __restrict g, float* __restrict m,
               float* __restrict u) {
  for (size_t i = 0; i < n; ++i) {
    const float mean = momentum * m[i] + g[i];
    m[i] = mean;
    u[i] = kNesterov ? g[i] + momentum * mean : mean;
  }
}

void Average(size_t n, float momentum, bool nesterov, const float* g, float* m, float* u) {
  if (nesterov) {
    AverageBy<true>(n, momentum, g, m, u);
  } else {
    AverageBy<false>(n, momentum, g, m, u);
  }
}

void Divide(size_t n, double by, float* __restrict x) {
  for (size_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(static_cast<double>(x[i]) / by);
  }
}

void Mix(size_t n, float a, float* __restrict x, float b, const float* __restrict y) {
  for (size_t i = 0; i < n; ++i) {
    x[i] = a * x[i] + b * y[i];
  }
}

void Move(size_t n, float decay, float rate, const float* __restrict x, float* __restrict w,
          MoveRecord record) {
  float* __restrict const moved = record.moved;
  if (moved == nullptr) {
    for (size_t i = 0; i < n; ++i) {
      w[i] -= decay * w[i] + rate * x[i];
    }
  } else if (record.fresh) {
    for (size_t i = 0; i < n; ++i) {
      const float by = decay * w[i] + rate * x[i];
      w[i] -= by;
      moved[i] = -by;
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      const float by = decay * w[i] + rate * x[i];
      w[i] -= by;
      moved[i] -= by;
    }
  }
}

}  // namespace

constinit const MatrixLoops kMatrixLoops = {.tile = Tile,
                                            .squares = Squares,
                                            .average = Average,
                                            .divide = Divide,
                                            .mix = Mix,
                                            .move = Move};

}  // namespace monsoon::SIMD_NAMESPACE
