// Long short-term memory, a step at a time. Arrays of a direction are [steps][n][...], steps in
// the order of its reading, so that a step's rows and those of the steps before it are matrices.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// Between [n][steps][features] and [steps][n][features], steps backwards if `backward`. Element
// i is of the latter. Count: all.
struct SwapSteps {
  Divisor features;
  Divisor examples;
  uint32_t steps;
  bool backward;
  MONSOON_PORTABLE uint32_t ByExample(uint32_t i) const {
    const uint32_t row = features.Quotient(i);
    const uint32_t k = examples.Quotient(row);
    const uint32_t n = row - k * examples.value();
    const uint32_t step = backward ? steps - 1 - k : k;
    return (n * steps + step) * features.value() + (i - row * features.value());
  }
};

struct StepsFirst {
  SwapSteps place;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const { out[i] = in[place.ByExample(i)]; }
};

struct ExamplesFirst {
  SwapSteps place;
  bool adds;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t to = place.ByExample(i);
    out[to] = adds ? out[to] + in[i] : in[i];
  }
};

// Where h of (n, u) at a step stands in the layer's output and its gradient: null, the step is
// not told.
struct ToldState {
  uint32_t row_stride;  // from one sample to the next
  MONSOON_PORTABLE uint32_t At(uint32_t n, uint32_t u) const { return n * row_stride + u; }
};

// Of one step: gates i, f, g, o [n][4][units] hold what their functions take and then their
// values. Count: n * units.
struct LstmForward {
  Divisor units;
  ToldState told;
  float* gates;
  const float* c_before;  // null: 0
  float* c;               // [n][units]
  float* h;
  float* out;  // null: not told
  MONSOON_PORTABLE static float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
  MONSOON_PORTABLE void operator()(uint32_t e) const {
    const uint32_t n = units.Quotient(e);
    const uint32_t u = e - n * units.value();
    float* const of_row = gates + 4 * n * units.value() + u;
    const float i = Sigmoid(of_row[0]);
    const float f = Sigmoid(of_row[units.value()]);
    const float g = tanhf(of_row[2 * units.value()]);
    const float o = Sigmoid(of_row[3 * units.value()]);
    of_row[0] = i;
    of_row[units.value()] = f;
    of_row[2 * units.value()] = g;
    of_row[3 * units.value()] = o;
    const float state = (c_before == nullptr ? 0.0f : f * c_before[e]) + i * g;
    c[e] = state;
    h[e] = o * tanhf(state);
    if (out != nullptr) {
      out[told.At(n, u)] = h[e];
    }
  }
};

// dloss/dh = what the output's gradient says and what the step behind has put into dh; dc comes
// from the step behind, and goes to the one before. Count: n * units.
struct LstmBackward {
  Divisor units;
  ToldState told;
  const float* gates;
  const float* c_before;  // null: 0
  const float* c;
  const float* out_diff;  // null: not told
  const float* dh;        // null: the last step
  float* dc;
  float* gate_diffs;  // [n][4][units]
  MONSOON_PORTABLE void operator()(uint32_t e) const {
    const uint32_t n = units.Quotient(e);
    const uint32_t u = e - n * units.value();
    const uint32_t at = 4 * n * units.value() + u;
    const float i = gates[at];
    const float f = gates[at + units.value()];
    const float g = gates[at + 2 * units.value()];
    const float o = gates[at + 3 * units.value()];
    const float squashed = tanhf(c[e]);
    const float h_diff = (dh == nullptr ? 0.0f : dh[e]) +
                         (out_diff == nullptr ? 0.0f : out_diff[told.At(n, u)]);
    const float diff =
        (dh == nullptr ? 0.0f : dc[e]) + h_diff * o * (1.0f - squashed * squashed);
    gate_diffs[at] = diff * g * i * (1.0f - i);
    gate_diffs[at + units.value()] =
        c_before == nullptr ? 0.0f : diff * c_before[e] * f * (1.0f - f);
    gate_diffs[at + 2 * units.value()] = diff * i * (1.0f - g * g);
    gate_diffs[at + 3 * units.value()] = h_diff * squashed * o * (1.0f - o);
    dc[e] = diff * f;
  }
};

}  // namespace monsoon::cuda
