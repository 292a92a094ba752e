// Operations on vectors of a model's size: sums of gradients, and a replica's local
// optimizer. An operation is a class with operator()(i) as in elementwise.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/optimizer/optimizer_rules.h"
#include "common/optimizer/optimizer_step.h"
#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// to[i] += from[i].
struct AddVector {
  const float* from;
  float* to;
  MONSOON_PORTABLE void operator()(uint32_t i) const { to[i] += from[i]; }
};

// values[i] = value.
struct FillVector {
  float value;
  float* values;
  MONSOON_PORTABLE void operator()(uint32_t i) const { values[i] = value; }
};

// sum[i] = weight * from[i], or adds that: exact products, as a float's 24 bits and a
// weight's 29 fit a double.
struct AddWeighted {
  double weight;
  const float* from;
  double* sum;
  bool fresh;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const double value = weight * static_cast<double>(from[i]);
    sum[i] = fresh ? value : sum[i] + value;
  }
};

// to[i] = sum[i], rounded.
struct RoundSum {
  const double* sum;
  float* to;
  MONSOON_PORTABLE void operator()(uint32_t i) const { to[i] = static_cast<float>(sum[i]); }
};

// What of a value goes into a half, with error feedback: out = half(in + residual), capped
// at the largest finite one, and the rest stays in the residual (TensorCodec::
// EncodeWithFeedback, to the same bits). What is not finite stays so, and leaves no rest.
struct EncodeHalf {
  HalfType type;
  const float* in;
  float* residual;
  uint16_t* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float value = in[i] + residual[i];
    uint16_t half = ToHalf(type, value);
    float rest = 0.0f;
    if (IsFiniteBits(value)) {
      const uint16_t largest = type == HalfType::kBfloat16 ? 0x7F7F : 0x7BFF;
      if ((half & 0x7FFF) > largest) {
        half = static_cast<uint16_t>((half & 0x8000) | largest);
      }
      rest = value - FromHalf(type, half);
    }
    residual[i] = rest;
    out[i] = half;
  }
};

// One step of the optimizer, and how far each parameter moved: the formulas that the host's loops
// have too.
struct UpdateParameters {
  OptimizerStep step;
  const float* gradient;
  float* parameters;
  float* state;   // not touched by SGD
  float* second;  // slot of the state, null where there is none
  float* moved;
  bool fresh;  // moved is set, not added to

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float w = parameters[i];
    float g = gradient[i];
    g = g > step.clip ? step.clip : g;  // so that a NaN stays one
    g = g < -step.clip ? -step.clip : g;
    g += step.weight_decay * w;
    const float by = BackByRule(step, {i, w, g, state, second});
    parameters[i] = w - by;
    moved[i] = fresh ? -by : moved[i] - by;
  }
};

}  // namespace monsoon::cuda
