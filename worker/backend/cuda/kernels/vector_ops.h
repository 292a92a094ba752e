// Operations on vectors of a model's size: sums of gradients, and a replica's local
// optimizer. An operation is a class with operator()(i) as in elementwise.h.
#pragma once

#include <cmath>
#include <cstdint>

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

// One step of the optimizer, and how far each parameter moved: the formulas of
// common/optimizer/optimizer.h, the operations in the order of its loops.
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
    float by = 0.0f;
    switch (step.kind) {
      case OptimizerStep::Kind::kSgd:
        by = step.rate * g;
        break;
      case OptimizerStep::Kind::kMomentum: {
        const float v = step.momentum * state[i] + g;
        state[i] = v;
        by = step.rate * v;
        break;
      }
      case OptimizerStep::Kind::kAdagrad: {
        const float h = state[i] + g * g;
        state[i] = h;
        by = step.rate * g / (sqrtf(h) + step.epsilon);
        break;
      }
      case OptimizerStep::Kind::kAdam:
        by = Adam(i, w, g);
        break;
      case OptimizerStep::Kind::kRmsProp:
        by = RmsProp(i, g);
        break;
      case OptimizerStep::Kind::kNesterov:
        by = Nesterov(i, g);
        break;
    }
    parameters[i] = w - by;
    moved[i] = fresh ? -by : moved[i] - by;
  }

  // These update the state, and return what w goes back by.
  MONSOON_PORTABLE float Adam(uint32_t i, float w, float g) const {
    const AdamStep& adam = step.adam;
    const float m = adam.beta1 * state[i] + adam.rest1 * g;
    const float v = adam.beta2 * second[i] + adam.rest2 * (g * g);
    state[i] = m;
    second[i] = v;
    const float root = sqrtf(v) * adam.root_scale;
    return adam.decay * w + adam.rate * m / (root + adam.epsilon);
  }

  MONSOON_PORTABLE float RmsProp(uint32_t i, float g) const {
    const RmsPropStep& rms_prop = step.rms_prop;
    const float v = rms_prop.alpha * state[i] + rms_prop.rest * (g * g);
    state[i] = v;
    const float root = sqrtf(v) + rms_prop.epsilon;
    if (second == nullptr) {
      return rms_prop.rate * g / root;
    }
    const float b = rms_prop.momentum * second[i] + g / root;
    second[i] = b;
    return rms_prop.rate * b;
  }

  MONSOON_PORTABLE float Nesterov(uint32_t i, float g) const {
    const NesterovStep& nesterov = step.nesterov;
    float b = state[i];
    if (second == nullptr) {
      b = nesterov.momentum * b + g;
      state[i] = b;
      return nesterov.rate * (g + nesterov.ahead * b);
    }
    const float sum = second[i] + g;
    if (nesterov.closes) {
      b = nesterov.momentum * b + nesterov.part * sum;
      state[i] = b;
    }
    second[i] = nesterov.closes ? 0.0f : sum;
    return nesterov.rate * (nesterov.part * g + nesterov.ahead * b);
  }
};

}  // namespace monsoon::cuda
