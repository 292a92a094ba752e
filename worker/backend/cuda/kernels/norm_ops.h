// Normalisation: of a row of a matrix (layer_norm), and of a channel of [n, c, area] over the
// batch (batch_norm). Operations in the forms of launch.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

struct RowMoments {
  float mean;
  float inverse;  // 1 / sqrt(variance + epsilon)
};

struct RowMean {
  using Value = double;
  const float* in;
  uint32_t columns;
  RowMoments* moments;
  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    double sum = 0;
    for (uint32_t c = thread; c < columns; c += threads) {
      sum += static_cast<double>(in[row * columns + c]);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double sum) const {
    moments[row].mean = static_cast<float>(sum / static_cast<double>(columns));
  }
};

// After RowMean.
struct RowDeviation {
  using Value = double;
  const float* in;
  uint32_t columns;
  float epsilon;
  RowMoments* moments;
  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    const float mean = moments[row].mean;
    double sum = 0;
    for (uint32_t c = thread; c < columns; c += threads) {
      const float rest = in[row * columns + c] - mean;
      sum += static_cast<double>(rest * rest);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double sum) const {
    const float variance = static_cast<float>(sum / static_cast<double>(columns));
    moments[row].inverse = 1.0f / sqrtf(variance + epsilon);
  }
};

// y = scale x^ + shift with x^ = (x - mean) / deviation. Count: rows * columns.
struct LayerNormForward {
  Divisor columns;
  const RowMoments* moments;
  const float* scale;
  const float* shift;  // null: none
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = columns.Quotient(i);
    const uint32_t c = i - row * columns.value();
    const float value = scale[c] * ((in[i] - moments[row].mean) * moments[row].inverse);
    out[i] = shift == nullptr ? value : value + shift[c];
  }
};

struct TwoSums {
  double diff;
  double product;
};

struct TwoMeans {
  float diff;
  float product;
};

// Of a row the means of g and of g x^, with g = scale dy.
struct RowDiffMeans {
  using Value = TwoSums;
  uint32_t columns;
  const RowMoments* moments;
  const float* scale;
  const float* in;
  const float* out_diff;
  TwoMeans* means;
  MONSOON_PORTABLE TwoSums Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    const RowMoments moment = moments[row];
    TwoSums sums = {0, 0};
    for (uint32_t c = thread; c < columns; c += threads) {
      const uint32_t i = row * columns + c;
      const float diff = scale[c] * out_diff[i];
      sums.diff += static_cast<double>(diff);
      sums.product += static_cast<double>(diff * ((in[i] - moment.mean) * moment.inverse));
    }
    return sums;
  }
  MONSOON_PORTABLE static TwoSums Combine(TwoSums a, TwoSums b) {
    return {a.diff + b.diff, a.product + b.product};
  }
  MONSOON_PORTABLE void Finish(uint32_t row, TwoSums sums) const {
    const double count = static_cast<double>(columns);
    means[row] = {static_cast<float>(sums.diff / count), static_cast<float>(sums.product / count)};
  }
};

// products = dy x^, of which a column's sum is its scale's gradient; and, unless in_diff is null,
// dx = (g - mean of g - x^ mean of g x^) / deviation. Count: rows * columns.
struct LayerNormBackward {
  Divisor columns;
  const RowMoments* moments;
  const TwoMeans* means;
  const float* scale;
  const float* in;
  const float* out_diff;
  float* products;
  float* in_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = columns.Quotient(i);
    const RowMoments moment = moments[row];
    const float normal = (in[i] - moment.mean) * moment.inverse;
    products[i] = out_diff[i] * normal;
    if (in_diff != nullptr) {
      const float diff = scale[i - row * columns.value()] * out_diff[i];
      in_diff[i] = (diff - means[row].diff - normal * means[row].product) * moment.inverse;
    }
  }
};

// A channel's mean and variance: those of the batch as sums, to be multiplied with 1 / count, or
// the running ones with 1.
struct ChannelMoments {
  const float* mean;
  const float* variance;
  float factor;
  float epsilon;
  MONSOON_PORTABLE float Mean(uint32_t c) const { return mean[c] * factor; }
  MONSOON_PORTABLE float Inverse(uint32_t c) const {
    return 1.0f / sqrtf(variance[c] * factor + epsilon);
  }
};

// Which channel element i of [n, c, area] is of.
struct ChannelOf {
  Divisor channels;
  Divisor area;
  MONSOON_PORTABLE uint32_t operator()(uint32_t i) const {
    return channels.Remainder(area.Quotient(i));
  }
};

// squares = (x - mean)^2. Count: values.
struct BatchDeviation {
  ChannelOf channel;
  const float* mean_sums;
  float factor;
  const float* in;
  float* squares;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float rest = in[i] - mean_sums[channel(i)] * factor;
    squares[i] = rest * rest;
  }
};

struct BatchNormForward {
  ChannelOf channel;
  ChannelMoments moments;
  const float* scale;  // null: 1, and no shift
  const float* shift;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t c = channel(i);
    const float normal = (in[i] - moments.Mean(c)) * moments.Inverse(c);
    out[i] = scale == nullptr ? normal : scale[c] * normal + shift[c];
  }
};

// products = dy x^.
struct BatchNormProducts {
  ChannelOf channel;
  ChannelMoments moments;
  const float* in;
  const float* out_diff;
  float* products;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t c = channel(i);
    products[i] = out_diff[i] * ((in[i] - moments.Mean(c)) * moments.Inverse(c));
  }
};

// dx = scale / deviation (dy - (sum of dy + x^ sum of dy x^) / count), or without what is
// subtracted where the moments are not the batch's (share 0).
struct BatchNormBackward {
  ChannelOf channel;
  ChannelMoments moments;
  const float* scale;  // null: 1
  const float* diff_sums;
  const float* product_sums;
  float share;  // 1 / count
  const float* in;
  const float* out_diff;
  float* in_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t c = channel(i);
    const float inverse = moments.Inverse(c);
    const float normal = (in[i] - moments.Mean(c)) * inverse;
    const float rest = (diff_sums[c] + normal * product_sums[c]) * share;
    in_diff[i] = (out_diff[i] - rest) * inverse * (scale == nullptr ? 1.0f : scale[c]);
  }
};

// What a push subtracts from the running moments to move them towards the batch's; times the loss
// scale, which is taken out of it like of any gradient. Count: channels.
struct MoveMoments {
  ChannelMoments of_batch;
  float momentum;
  float unbiased;  // of a variance: n / (n - 1)
  const float* running_mean;
  const float* running_variance;
  const StepControl* control;
  float* mean_diff;
  float* variance_diff;
  MONSOON_PORTABLE void operator()(uint32_t c) const {
    const float scale = momentum * control->loss_scale;
    const float variance = of_batch.variance[c] * of_batch.factor * unbiased;
    mean_diff[c] = scale * (running_mean[c] - of_batch.Mean(c));
    variance_diff[c] = scale * (running_variance[c] - variance);
  }
};

}  // namespace monsoon::cuda
