#include "worker/backend/cpu/sequence_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

using cpu::kRowFloats;
using cpu::LayerNormRow;
using cpu::LstmBackwardRow;
using cpu::LstmForwardRow;
using cpu::SequenceLoops;
using cpu::SmallProduct;

// Floats of one register, and rows of the widest tile of a product: with two registers of columns
// it fills half of the registers, and hides their latency.
#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
constexpr size_t kTileRows = 8;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
constexpr size_t kTileRows = 4;
#else
constexpr size_t kLanes = 4;
constexpr size_t kTileRows = 4;
#endif

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int IntLanes __attribute__((vector_size(kLanes * sizeof(int))));
// Parts of any array of floats. Members of structs, as a template's argument loses its attributes.
struct Wide {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
};
struct Four {
  typedef float Vector __attribute__((vector_size(4 * sizeof(float)), aligned(4), may_alias));
};
struct One {
  typedef float Vector;
};

size_t Least(size_t a, size_t b) { return a < b ? a : b; }

// The first `count` <= kLanes of an array, the others 0.
Lanes Load(const float* from, size_t count) {
  if (count >= kLanes) {
    return *reinterpret_cast<const Wide::Vector*>(from);
  }
  Lanes values = {};
  __builtin_memcpy(&values, from, count * sizeof(float));
  return values;
}

void Store(float* to, Lanes values, size_t count) {
  if (count >= kLanes) {
    *reinterpret_cast<Wide::Vector*>(to) = values;
  } else {
    __builtin_memcpy(to, &values, count * sizeof(float));
  }
}

// `values` in the first `count` lanes, `other` in the rest.
Lanes First(size_t count, Lanes values, float other) {
  IntLanes lane;
  for (size_t i = 0; i < kLanes; ++i) {
    lane[i] = static_cast<int>(i);
  }
  return lane < static_cast<int>(count) ? values : Lanes{} + other;
}

float Sum(Lanes values) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      values[i] += values[i + half];
    }
  }
  return values[0];
}

float Largest(Lanes values) {
  float largest = values[0];
  for (size_t i = 1; i < kLanes; ++i) {
    largest = values[i] > largest ? values[i] : largest;
  }
  return largest;
}

// exp within two units in the last place, of [-87, 88] or the nearer end; NaN stays.
Lanes Exp(Lanes x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: a sum with it is rounded to whole numbers
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  x = x > 88.0f ? Lanes{} + 88.0f : x;
  x = x < -87.0f ? Lanes{} - 87.0f : x;
  const Lanes rounded = x * kLog2e + kRound;
  const Lanes n = rounded - kRound;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  // exp(r) for |r| <= log(2) / 2 (Cephes).
  Lanes p = Lanes{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  IntLanes exponent;
  __builtin_memcpy(&exponent, &rounded, sizeof(exponent));
  // The bits of kRound have been added to n; what is above the exponent's place goes.
  exponent = (exponent + 127) << 23;
  Lanes scale;
  __builtin_memcpy(&scale, &exponent, sizeof(scale));
  return p * scale;
}

Lanes Sigmoid(Lanes x) { return 1.0f / (1.0f + Exp(-x)); }
Lanes Tanh(Lanes x) { return 1.0f - 2.0f / (1.0f + Exp(x + x)); }

// kRows rows and kColumns vectors of columns of a product, from row i and column j.
template <typename Width, size_t kRows, size_t kColumns>
void Tile(const SmallProduct& p, size_t i, size_t j) {
  using Vector = typename Width::Vector;
  constexpr size_t kWidth = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][kColumns] = {};
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + j;
  for (size_t k = 0; k < p.depth; ++k, a += p.a_depth, b += p.b_depth) {
    Vector columns[kColumns];
#pragma GCC unroll 2
    for (size_t c = 0; c < kColumns; ++c) {
      columns[c] = *reinterpret_cast<const Vector*>(b + c * kWidth);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (size_t c = 0; c < kColumns; ++c) {
        sums[r][c] += a[r * p.a_row] * columns[c];
      }
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t c = 0; c < kColumns; ++c) {
      Vector* const to = reinterpret_cast<Vector*>(p.c + (i + r) * p.c_row + j + c * kWidth);
      *to = p.adds ? *to + sums[r][c] : sums[r][c];
    }
  }
}

// All rows of some columns.
template <typename Width, size_t kColumns>
void Panel(const SmallProduct& p, size_t j) {
  size_t i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) {
    Tile<Width, kTileRows, kColumns>(p, i, j);
  }
  if constexpr (kTileRows > 4) {
    if (i + 4 <= p.rows) {
      Tile<Width, 4, kColumns>(p, i, j);
      i += 4;
    }
  }
  if (i + 2 <= p.rows) {
    Tile<Width, 2, kColumns>(p, i, j);
    i += 2;
  }
  if (i < p.rows) {
    Tile<Width, 1, kColumns>(p, i, j);
  }
}

void Product(const SmallProduct& p) {
  size_t j = 0;
  for (; j + 2 * kLanes <= p.columns; j += 2 * kLanes) {
    Panel<Wide, 2>(p, j);
  }
  for (; j + kLanes <= p.columns; j += kLanes) {
    Panel<Wide, 1>(p, j);
  }
  for (; j + 4 <= p.columns; j += 4) {
    Panel<Four, 1>(p, j);
  }
  for (; j < p.columns; ++j) {
    Panel<One, 1>(p, j);
  }
}

void Transpose(size_t rows, size_t columns, const float* from, size_t from_row, float* to) {
  const size_t padded = (rows + kRowFloats - 1) / kRowFloats * kRowFloats;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < rows; ++r) {
      to[c * padded + r] = from[r * from_row + c];
    }
    for (size_t r = rows; r < padded; ++r) {
      to[c * padded + r] = 0;
    }
  }
}

void Add(size_t floats, const float* a, const float* b, float* sum) {
  for (size_t i = 0; i < floats; i += kLanes) {
    const size_t count = Least(kLanes, floats - i);
    Store(sum + i, Load(a + i, count) + Load(b + i, count), count);
  }
}

void Softmax(size_t seen, size_t padded, float scale, float* values) {
  constexpr float kLowest = -3.4e38f;
  Lanes most = Lanes{} + kLowest;
  for (size_t i = 0; i < seen; i += kLanes) {
    const Lanes x = First(Least(kLanes, seen - i), Load(values + i, kLanes), kLowest);
    most = x > most ? x : most;
  }
  const float largest = Largest(most);
  Lanes sums = {};
  for (size_t i = 0; i < seen; i += kLanes) {
    const Lanes x = Load(values + i, kLanes);
    const Lanes e = First(Least(kLanes, seen - i), Exp((x - largest) * scale), 0);
    Store(values + i, e, kLanes);
    sums += e;
  }
  const float factor = 1.0f / Sum(sums);
  size_t i = 0;
  for (; i < seen; i += kLanes) {
    Store(values + i, Load(values + i, kLanes) * factor, kLanes);
  }
  for (; i < padded; i += kLanes) {
    Store(values + i, Lanes{}, kLanes);
  }
}

void SoftmaxBackward(size_t padded, float scale, const float* p, float* diff) {
  Lanes sums = {};
  for (size_t i = 0; i < padded; i += kLanes) {
    sums += Load(p + i, kLanes) * Load(diff + i, kLanes);
  }
  const float mean = Sum(sums);
  for (size_t i = 0; i < padded; i += kLanes) {
    Store(diff + i, scale * Load(p + i, kLanes) * (Load(diff + i, kLanes) - mean), kLanes);
  }
}

void LstmForward(const LstmForwardRow& row) {
  const size_t units = row.units;
  for (size_t u = 0; u < units; u += kLanes) {
    const size_t count = Least(kLanes, units - u);
    float* const gates = row.gates + u;
    const Lanes i = Sigmoid(Load(gates, count));
    const Lanes f = Sigmoid(Load(gates + units, count));
    const Lanes g = Tanh(Load(gates + 2 * units, count));
    const Lanes o = Sigmoid(Load(gates + 3 * units, count));
    Store(gates, i, count);
    Store(gates + units, f, count);
    Store(gates + 2 * units, g, count);
    Store(gates + 3 * units, o, count);
    const Lanes before = row.c_before == nullptr ? Lanes{} : Load(row.c_before + u, count);
    const Lanes c = f * before + i * g;
    const Lanes tanh_c = Tanh(c);
    Store(row.c + u, c, count);
    Store(row.tanh_c + u, tanh_c, count);
    Store(row.h + u, o * tanh_c, count);
  }
}

void LstmBackward(const LstmBackwardRow& row) {
  const size_t units = row.units;
  for (size_t u = 0; u < units; u += kLanes) {
    const size_t count = Least(kLanes, units - u);
    const Lanes i = Load(row.gates + u, count);
    const Lanes f = Load(row.gates + units + u, count);
    const Lanes g = Load(row.gates + 2 * units + u, count);
    const Lanes o = Load(row.gates + 3 * units + u, count);
    const Lanes tanh_c = Load(row.tanh_c + u, count);
    const Lanes before = row.c_before == nullptr ? Lanes{} : Load(row.c_before + u, count);
    Lanes h_diff = row.h_diff == nullptr ? Lanes{} : Load(row.h_diff + u, count);
    h_diff += row.out_diff == nullptr ? Lanes{} : Load(row.out_diff + u, count);
    const Lanes c_diff = Load(row.c_diff + u, count) + h_diff * o * (1.0f - tanh_c * tanh_c);
    float* const diff = row.gates_diff + u;
    Store(diff, c_diff * g * i * (1.0f - i), count);
    Store(diff + units, c_diff * before * f * (1.0f - f), count);
    Store(diff + 2 * units, c_diff * i * (1.0f - g * g), count);
    Store(diff + 3 * units, h_diff * tanh_c * o * (1.0f - o), count);
    Store(row.c_diff + u, c_diff * f, count);
  }
}

void LayerNorm(LayerNormRow& row, float epsilon, const float* shift, float* y) {
  const size_t n = row.features;
  Lanes sums = {};
  for (size_t i = 0; i < n; i += kLanes) {
    sums += Load(row.x + i, Least(kLanes, n - i));
  }
  row.mean = Sum(sums) / static_cast<float>(n);
  Lanes squares = {};
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = Least(kLanes, n - i);
    const Lanes x = First(count, Load(row.x + i, count) - row.mean, 0);
    squares += x * x;
  }
  row.factor = 1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(n) + epsilon);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = Least(kLanes, n - i);
    const Lanes z = (Load(row.x + i, count) - row.mean) * row.factor;
    const Lanes b = shift == nullptr ? Lanes{} : Load(shift + i, count);
    Store(y + i, Load(row.scale + i, count) * z + b, count);
  }
}

void LayerNormBackward(const LayerNormRow& row, const float* y_diff, float* x_diff,
                       float* scale_diff, float* shift_diff) {
  const size_t n = row.features;
  // e = dloss/dz of z = (x - mean) factor; dloss/dx = factor (e - mean(e) - z mean(e z)).
  Lanes e_sums = {};
  Lanes ez_sums = {};
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = Least(kLanes, n - i);
    const Lanes diff = Load(y_diff + i, count);
    const Lanes z = (Load(row.x + i, count) - row.mean) * row.factor;
    const Lanes e = diff * Load(row.scale + i, count);
    e_sums += e;
    ez_sums += e * z;
    Store(scale_diff + i, Load(scale_diff + i, count) + diff * z, count);
    Store(shift_diff + i, Load(shift_diff + i, count) + diff, count);
  }
  if (x_diff == nullptr) {
    return;
  }
  const float mean_e = Sum(e_sums) / static_cast<float>(n);
  const float mean_ez = Sum(ez_sums) / static_cast<float>(n);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = Least(kLanes, n - i);
    const Lanes z = (Load(row.x + i, count) - row.mean) * row.factor;
    const Lanes e = Load(y_diff + i, count) * Load(row.scale + i, count);
    Store(x_diff + i, row.factor * (e - mean_e - z * mean_ez), count);
  }
}

}  // namespace

const SequenceLoops kSequenceLoops = {
    .product = Product,
    .transpose = Transpose,
    .add = Add,
    .softmax = Softmax,
    .softmax_backward = SoftmaxBackward,
    .lstm_forward = LstmForward,
    .lstm_backward = LstmBackward,
    .layer_norm = LayerNorm,
    .layer_norm_backward = LayerNormBackward,
};

}  // namespace monsoon::SIMD_NAMESPACE
