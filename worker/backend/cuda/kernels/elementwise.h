// Operations on each element alone. An operation is a class with operator()(i),
// called once for each i below a count, in any order, on the GPU or the CPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/kernels/philox.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// What of a step changes from call to call; lies in device memory, so that a
// captured graph sees the values of each launch.
struct StepControl {
  uint64_t dropout_key;      // of the step, unless by_sample
  uint32_t by_sample;        // masks follow sample_keys
  float loss_scale;          // the gradient is computed times this...
  float inverse_loss_scale;  // ...and multiplied by this at the end
};

enum class ActivationKind { kRelu, kSigmoid, kTanh };

struct ActivationForward {
  ActivationKind kind;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float x = in[i];
    switch (kind) {
      case ActivationKind::kRelu:
        // So that a NaN stays one.
        out[i] = x <= 0.0f ? 0.0f : x;
        return;
      case ActivationKind::kSigmoid:
        out[i] = 1.0f / (1.0f + expf(-x));
        return;
      case ActivationKind::kTanh:
        out[i] = tanhf(x);
        return;
    }
  }
};

// From the output y: ReLU' = [y > 0], sigmoid' = y (1 - y), tanh' = 1 - y^2.
struct ActivationBackward {
  ActivationKind kind;
  const float* out;
  const float* out_diff;
  float* in_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float y = out[i];
    switch (kind) {
      case ActivationKind::kRelu:
        in_diff[i] = y > 0.0f ? out_diff[i] : 0.0f;
        return;
      case ActivationKind::kSigmoid:
        in_diff[i] = out_diff[i] * (y * (1.0f - y));
        return;
      case ActivationKind::kTanh:
        in_diff[i] = out_diff[i] * (1.0f - y * y);
        return;
    }
  }
};

// out = in * mask, forward and backward; the mask is drawn anew each time.
struct ApplyDropout {
  DropoutLayer layer;
  const StepControl* control;
  const uint64_t* sample_keys;  // [examples], read if control->by_sample
  uint32_t values;              // per example
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    float factor;
    if (control->by_sample != 0) {
      const uint64_t stream = layer.stream - kDropoutStream + kSampleDropoutStream;
      factor = DropoutFactor(layer, sample_keys[i / values], stream, i % values);
    } else {
      factor = DropoutFactor(layer, control->dropout_key, layer.stream, i);
    }
    out[i] = in[i] * factor;
  }
};

// matrix[r, c] += bias[c], for a matrix of `columns` columns.
struct AddBias {
  const float* bias;
  uint32_t columns;
  float* matrix;
  MONSOON_PORTABLE void operator()(uint32_t i) const { matrix[i] += bias[i % columns]; }
};

struct CastToHalf {
  HalfType type;
  const float* in;
  uint16_t* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const { out[i] = ToHalf(type, in[i]); }
};

// Takes the loss scale out of a gradient; a value that is not finite sets
// *non_finite. All who set it write the same, so their order does not matter.
struct Unscale {
  const StepControl* control;
  float* values;
  uint32_t* non_finite;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float value = values[i] * control->inverse_loss_scale;
    values[i] = value;
    if (!IsFiniteBits(value)) {
      *non_finite = 1;
    }
  }
};

// sums[c] = sum over column c of a [rows, columns] matrix: a bias gradient.
// See ReduceRows in launch.h for the form.
struct ColumnSums {
  using Value = float;
  const float* matrix;
  uint32_t rows;
  uint32_t columns;
  float* sums;
  MONSOON_PORTABLE float Partial(uint32_t column, uint32_t thread, uint32_t threads) const {
    float sum = 0.0f;
    for (uint32_t r = thread; r < rows; r += threads) {
      sum += matrix[r * columns + column];
    }
    return sum;
  }
  MONSOON_PORTABLE static float Combine(float a, float b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t column, float sum) const { sums[column] = sum; }
};

}  // namespace monsoon::cuda
