// Operations of layers that join values, or compute each one by itself or with few others. An
// operation is a class with operator()(i) as in elementwise.h; each i writes its own outputs.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// out = a + b, or a * b. `out` may be `a`.
struct JoinPair {
  bool multiplies;
  const float* a;
  const float* b;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    out[i] = multiplies ? a[i] * b[i] : a[i] + b[i];
  }
};

// A matrix of `width` columns is columns [first, first + width) of one of `total` columns, on
// the same rows: copied into it, or out of it. Count: rows * width.
class CopyColumns {
 public:
  CopyColumns(uint32_t width, uint32_t first, uint32_t total, bool out_of, const float* from,
              float* to)
      : width_(width), first_(first), total_(total), out_of_(out_of), from_(from), to_(to) {}
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = width_.Quotient(i);
    const uint32_t joined = row * total_ + first_ + (i - row * width_.value());
    if (out_of_) {
      to_[i] = from_[joined];
    } else {
      to_[joined] = from_[i];
    }
  }

 private:
  Divisor width_;
  uint32_t first_;
  uint32_t total_;
  bool out_of_;
  const float* from_;
  float* to_;
};

// The normal distribution's.
MONSOON_PORTABLE float Phi(float x) { return 0.5f * erfcf(x * -0.70710678f); }

struct GeluForward {
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const { out[i] = in[i] * Phi(in[i]); }
};

struct GeluBackward {
  const float* in;
  const float* out_diff;
  float* in_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float x = in[i];
    const float density = 0.39894228f * expf(-0.5f * x * x);
    in_diff[i] = out_diff[i] * (Phi(x) + x * density);
  }
};

// out = scale * in + offset.
struct Affine {
  float scale;
  float offset;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const { out[i] = scale * in[i] + offset; }
};

// out = in + row of `columns` values, for each row. Count: rows * columns.
class AddRow {
 public:
  AddRow(const float* row, uint32_t columns, const float* in, float* out)
      : row_(row), columns_(columns), in_(in), out_(out) {}
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    out_[i] = in_[i] + row_[columns_.Remainder(i)];
  }

 private:
  const float* row_;
  Divisor columns_;
  const float* in_;
  float* out_;
};

// Means over the middle of [outer, count, inner]: of images' pixels (inner 1), of sequences'
// steps. Count: outer * inner.
class MiddleMean {
 public:
  MiddleMean(uint32_t count, uint32_t inner, const float* in, float* out)
      : count_(count), inner_(inner), in_(in), out_(out) {}
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t outer = inner_.Quotient(i);
    const float* from = in_ + outer * count_ * inner_.value() + (i - outer * inner_.value());
    double sum = 0;
    MONSOON_ROLLED
    for (uint32_t k = 0; k < count_; ++k) {
      sum += static_cast<double>(from[k * inner_.value()]);
    }
    out_[i] = static_cast<float>(sum / static_cast<double>(count_));
  }

 private:
  uint32_t count_;
  Divisor inner_;
  const float* in_;
  float* out_;
};

// Its gradient. Count: outer * count * inner.
class MiddleMeanBackward {
 public:
  MiddleMeanBackward(uint32_t count, uint32_t inner, const float* out_diff, float* in_diff)
      : share_(1.0f / static_cast<float>(count)),
        inner_(inner),
        both_(count * inner),
        out_diff_(out_diff),
        in_diff_(in_diff) {}
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t outer = both_.Quotient(i);
    in_diff_[i] = share_ * out_diff_[outer * inner_.value() + inner_.Remainder(i)];
  }

 private:
  float share_;
  Divisor inner_;
  Divisor both_;
  const float* out_diff_;
  float* in_diff_;
};

}  // namespace monsoon::cuda
