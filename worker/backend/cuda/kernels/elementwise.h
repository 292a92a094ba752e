// Operations on each element alone. An operation is a class with operator()(i),
// called once for each i below a count, in any order, on the GPU or the CPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
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
  uint32_t has_targets;      // the samples came with targets, not with labels alone
  uint64_t augmentation_key;
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

// out = in * mask, forward and backward; the mask is drawn anew each time. Four
// elements to an i, as many as a block of Philox has words. Count: Fours(examples).
class ApplyDropout {
 public:
  // sample_keys: [examples], read if control->by_sample. `values` are of an example.
  ApplyDropout(const DropoutLayer& layer, const StepControl* control, const uint64_t* sample_keys,
               uint32_t values, uint64_t examples, const float* in, float* out)
      : layer_(layer),
        control_(control),
        sample_keys_(sample_keys),
        values_(values),
        count_(static_cast<uint32_t>(examples * values)),
        fours_of_example_((values + 3) / 4),
        in_(in),
        out_(out) {}

  uint64_t Fours(uint64_t examples) const { return examples * fours_of_example_.value(); }

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    if (control_->by_sample != 0) {
      const uint32_t n = fours_of_example_.Quotient(i);
      const uint32_t element = 4 * (i - n * fours_of_example_.value());
      const uint64_t stream = layer_.stream - kDropoutStream + kSampleDropoutStream;
      Apply(Philox(sample_keys_[n], stream, element / 4), n * values_ + element, values_ - element);
    } else if (i < count_ / 4 + (count_ % 4 != 0 ? 1 : 0)) {
      // Examples do not matter: there may be fewer fours than i's.
      Apply(Philox(control_->dropout_key, layer_.stream, i), 4 * i, count_ - 4 * i);
    }
  }

 private:
  MONSOON_PORTABLE void Apply(const PhiloxBlock& block, uint32_t first, uint32_t left) const {
    for (uint32_t j = 0; j < 4; ++j) {
      if (j < left) {
        out_[first + j] = in_[first + j] * DropoutFactor(layer_, block.word[j]);
      }
    }
  }

  DropoutLayer layer_;
  const StepControl* control_;
  const uint64_t* sample_keys_;
  uint32_t values_;
  uint32_t count_;
  Divisor fours_of_example_;
  const float* in_;
  float* out_;
};

// matrix[r, c] += bias[c], for a matrix of `columns` columns.
class AddBias {
 public:
  AddBias(const float* bias, uint32_t columns, float* matrix)
      : bias_(bias), columns_(columns), matrix_(matrix) {}
  MONSOON_PORTABLE void operator()(uint32_t i) const { matrix_[i] += bias_[columns_.Remainder(i)]; }

 private:
  const float* bias_;
  Divisor columns_;
  float* matrix_;
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

}  // namespace monsoon::cuda
