// The loops of the layers of sequences: small matrix products, whose matrices lie in a cache, and
// what is done to each value or row.
//
// One for each SIMD level (simd.bzl), with fused multiply-add where there is one: levels may give
// other bits. Rows may start anywhere and have any length, but where a padded one is asked for.
#pragma once

#include <cstddef>

namespace monsoon::cpu {

// Padded rows have a multiple of this many floats.
inline constexpr size_t kRowFloats = 16;
inline constexpr size_t Padded(size_t floats) {
  return (floats + kRowFloats - 1) / kRowFloats * kRowFloats;
}

// c [rows, columns] = a [rows, depth] b [depth, columns], or c += it. Each sum goes over the depth
// in order, whatever else there is.
struct SmallProduct {
  size_t rows, columns, depth;
  const float* a;
  size_t a_row, a_depth;  // from one row, and from one value of the depth, to the next
  const float* b;
  size_t b_depth;
  float* c;
  size_t c_row;
  bool adds;
};

// One example's units at one step.
struct LstmForwardRow {
  size_t units;
  float* gates;           // [4 units]: i, f, g, o before their functions; after them
  const float* c_before;  // null: 0
  float* c;
  float* tanh_c;
  float* h;
};
struct LstmBackwardRow {
  size_t units;
  const float* gates;
  const float* c_before;
  const float* tanh_c;
  const float* h_diff;    // from the step behind; null: 0
  const float* out_diff;  // from the layer behind; null: 0
  float* c_diff;          // of this step's c from the step behind; then of c_before
  float* gates_diff;      // by what the gates' functions take
};

struct LayerNormRow {
  size_t features;
  const float* scale;
  const float* x;
  float mean;
  float factor;  // 1 / sqrt(variance + epsilon)
};

struct SequenceLoops {
  void (*product)(const SmallProduct& product);
  // to [columns, padded rows] from the rows of `from`, the padding 0.
  void (*transpose)(size_t rows, size_t columns, const float* from, size_t from_row, float* to);
  void (*add)(size_t floats, const float* a, const float* b, float* sum);

  // Of the first `seen` of a padded row: values = softmax(scale * values), and 0 for the others
  // below `padded`.
  void (*softmax)(size_t seen, size_t padded, float scale, float* values);
  // diff = scale * p (diff - sum(p diff)), for a padded row p of softmax.
  void (*softmax_backward)(size_t padded, float scale, const float* p, float* diff);

  void (*lstm_forward)(const LstmForwardRow& row);
  void (*lstm_backward)(const LstmBackwardRow& row);

  // y = scale (x - mean) factor + shift, without it where it is null; sets row.mean and row.factor.
  void (*layer_norm)(LayerNormRow& row, float epsilon, const float* shift, float* y);
  // Adds to scale_diff and shift_diff. x_diff may be null.
  void (*layer_norm_backward)(const LayerNormRow& row, const float* y_diff, float* x_diff,
                              float* scale_diff, float* shift_diff);
};

}  // namespace monsoon::cpu

namespace monsoon::simd_baseline {
extern const cpu::SequenceLoops kSequenceLoops;
}  // namespace monsoon::simd_baseline
namespace monsoon::simd_avx2 {
extern const cpu::SequenceLoops kSequenceLoops;
}  // namespace monsoon::simd_avx2
namespace monsoon::simd_avx512 {
extern const cpu::SequenceLoops kSequenceLoops;
}  // namespace monsoon::simd_avx512
