// Local contrast normalisation of images [n, c, p], by maps [n, p] over their pixels. The window
// is a product of two Gaussians, and so is what a border scales it by: a pass along each axis.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// map[n, p] = sum over channels of a b. Count: n * pixels.
struct ChannelProduct {
  Divisor pixels;
  uint32_t channels;
  const float* a;
  const float* b;  // null: 1
  float* map;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t n = pixels.Quotient(i);
    uint32_t at = n * channels * pixels.value() + (i - n * pixels.value());
    float sum = 0.0f;
    MONSOON_ROLLED
    for (uint32_t c = 0; c < channels; ++c, at += pixels.value()) {
      sum += b == nullptr ? a[at] : a[at] * b[at];
    }
    map[i] = sum;
  }
};

// out = factor * the window's mean of `in` along one axis, whose neighbours are `stride` apart;
// weights that fall outside are spread over those inside. Or its adjoint. Count: a map's.
struct AxisWindow {
  Divisor stride;
  Divisor extent;
  uint32_t half;  // the window is 2 half + 1
  float rate;     // weights are exp(-rate d^2)
  float factor;
  bool adjoint;
  const float* in;
  float* out;
  MONSOON_PORTABLE float Weight(uint32_t a, uint32_t b) const {
    const float distance = static_cast<float>(a) - static_cast<float>(b);
    return expf(-rate * distance * distance);
  }
  MONSOON_PORTABLE uint32_t Begin(uint32_t t) const { return t < half ? 0 : t - half; }
  MONSOON_PORTABLE uint32_t End(uint32_t t) const {
    return t + half < extent.value() ? t + half + 1 : extent.value();
  }
  MONSOON_PORTABLE float Total(uint32_t t) const {
    float total = 0.0f;
    MONSOON_ROLLED
    for (uint32_t q = Begin(t); q < End(t); ++q) {
      total += Weight(q, t);
    }
    return total;
  }
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t t = extent.Remainder(stride.Quotient(i));
    const float* from = in + (i - t * stride.value());
    float sum = 0.0f;
    MONSOON_ROLLED
    for (uint32_t q = Begin(t); q < End(t); ++q) {
      const float value = from[q * stride.value()];
      sum += Weight(q, t) * (adjoint ? value / Total(q) : value);
    }
    out[i] = factor * (adjoint ? sum : sum / Total(t));
  }
};

// out = in - map. Count: values.
struct SubtractMap {
  Divisor pixels;
  Divisor sample;  // channels * pixels
  const float* in;
  const float* map;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    out[i] = in[i] - map[sample.Quotient(i) * pixels.value() + pixels.Remainder(i)];
  }
};

struct RootOfMap {
  float* map;
  MONSOON_PORTABLE void operator()(uint32_t i) const { map[i] = sqrtf(map[i]); }
};

// What a pixel's values are divided by: the largest of the image's mean of s, its own s and
// epsilon.
struct ContrastDivisor {
  const float* s;
  const float* means;  // [n]
  float epsilon;
  MONSOON_PORTABLE float operator()(uint32_t n, uint32_t at) const {
    const float larger = means[n] > s[at] ? means[n] : s[at];
    // A NaN stays one.
    return larger < epsilon ? epsilon : larger;
  }
};

// means[n] of a map.
struct MapMean {
  using Value = double;
  uint32_t pixels;
  const float* map;
  float* means;
  MONSOON_PORTABLE double Partial(uint32_t n, uint32_t thread, uint32_t threads) const {
    double sum = 0;
    for (uint32_t p = thread; p < pixels; p += threads) {
      sum += static_cast<double>(map[n * pixels + p]);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t n, double sum) const {
    means[n] = static_cast<float>(sum / static_cast<double>(pixels));
  }
};

// y = v / divisor. Count: values.
struct DivideByMap {
  Divisor pixels;
  Divisor sample;
  ContrastDivisor divisor;
  const float* v;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t n = sample.Quotient(i);
    out[i] = v[i] / divisor(n, n * pixels.value() + pixels.Remainder(i));
  }
};

// Of products = sum over channels of dy v, the divisor's gradient -products / divisor^2: to the
// pixel's s in `products`, and of those whose divisor is the mean their mean in means_diff[n].
struct DivisorDiffs {
  using Value = double;
  uint32_t pixels;
  ContrastDivisor divisor;
  float* products;
  float* means_diff;
  MONSOON_PORTABLE double Partial(uint32_t n, uint32_t thread, uint32_t threads) const {
    double sum = 0;
    for (uint32_t p = thread; p < pixels; p += threads) {
      const uint32_t at = n * pixels + p;
      const float by = divisor(n, at);
      const float diff = by == divisor.epsilon ? 0.0f : -products[at] / (by * by);
      const bool of_mean = by == divisor.means[n];
      sum += of_mean ? static_cast<double>(diff) : 0.0;
      products[at] = of_mean ? 0.0f : diff;
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t n, double sum) const {
    means_diff[n] = static_cast<float>(sum / static_cast<double>(pixels));
  }
};

// s_diff = (s_diff + means_diff) / s, as ds / dv = w v / s; where s is 0 all v of the window are,
// and 0 is the smallest slope there is. Count: n * pixels.
struct RootDiffs {
  Divisor pixels;
  const float* s;
  const float* means_diff;
  float* s_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    s_diff[i] = s[i] == 0.0f ? 0.0f : (s_diff[i] + means_diff[pixels.Quotient(i)]) / s[i];
  }
};

// v_diff = dy / divisor + spread * v. Count: values.
struct DivisionBackward {
  Divisor pixels;
  Divisor sample;
  ContrastDivisor divisor;
  const float* v;
  const float* spread;  // a map
  const float* out_diff;
  float* v_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t n = sample.Quotient(i);
    const uint32_t at = n * pixels.value() + pixels.Remainder(i);
    v_diff[i] = out_diff[i] / divisor(n, at) + spread[at] * v[i];
  }
};

}  // namespace monsoon::cuda
