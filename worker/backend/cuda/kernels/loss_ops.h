// Softmax cross-entropy in four launches: the largest output of each sample,
// its sums of exponentials and loss, the gradient, and the sums over the batch.
// No NaN and no infinity is hidden: either gives a loss that is not finite.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// What a step answers, in device memory.
struct StepSums {
  double loss;  // over the batch
  uint64_t correct;
  uint32_t non_finite;  // set by Unscale
  uint32_t unused;
};

struct Largest {
  float value;
  uint32_t index;
};

// For each sample its largest output and, of equal ones, the first.
struct RowLargest {
  using Value = Largest;
  const float* outputs;  // [examples, classes]
  uint32_t classes;
  Largest* largest;  // [examples]
  MONSOON_PORTABLE Largest Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    Largest best = {-INFINITY, UINT32_MAX};
    for (uint32_t c = thread; c < classes; c += threads) {
      best = Combine(best, Largest{outputs[row * classes + c], c});
    }
    return best;
  }
  // A NaN is larger than anything, so that it is seen.
  MONSOON_PORTABLE static Largest Combine(Largest a, Largest b) {
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a_nan || b_nan) {
      return a_nan && (!b_nan || a.index < b.index) ? a : b;
    }
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
  }
  MONSOON_PORTABLE void Finish(uint32_t row, Largest best) const { largest[row] = best; }
};

// Of one sample, sums of exp(output - largest).
struct RowSums {
  double beside;  // without the largest, which is 1
  double others;  // without the label
};

// Shifted by the largest, no exponential overflows. The sum beside the largest
// stays apart from its 1, so that a small loss keeps its digits.
struct RowLoss {
  using Value = RowSums;
  const float* outputs;
  const uint32_t* labels;
  const Largest* largest;
  uint32_t classes;
  RowSums* sums;   // [examples]
  double* losses;  // [examples]
  MONSOON_PORTABLE RowSums Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    RowSums part = {0, 0};
    for (uint32_t c = thread; c < classes; c += threads) {
      const bool top = c == largest[row].index;
      const float value = top ? 1.0f : expf(outputs[row * classes + c] - largest[row].value);
      part.beside += top ? 0.0f : value;
      part.others += c == labels[row] ? 0.0f : value;
    }
    return part;
  }
  MONSOON_PORTABLE static RowSums Combine(RowSums a, RowSums b) {
    return {a.beside + b.beside, a.others + b.others};
  }
  MONSOON_PORTABLE void Finish(uint32_t row, RowSums total) const {
    sums[row] = total;
    const double ahead = static_cast<double>(largest[row].value) -
                         static_cast<double>(outputs[row * classes + labels[row]]);
    losses[row] = log1p(total.beside) + ahead;
  }
};

// d(mean loss)/d(output), times the loss scale: the label's is minus the sum of
// the others. Count: examples * classes.
struct LossGradient {
  const float* outputs;
  const uint32_t* labels;
  const Largest* largest;
  const RowSums* sums;
  const StepControl* control;
  Divisor classes;
  float per_example;  // 1 / examples
  float* diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = classes.Quotient(i);
    const uint32_t c = i - row * classes.value();
    const float value = c == labels[row]          ? -static_cast<float>(sums[row].others)
                        : c == largest[row].index ? 1.0f
                                                  : expf(outputs[i] - largest[row].value);
    const float total = static_cast<float>(1.0 + sums[row].beside);
    diff[i] = value / total * (per_example * control->loss_scale);
  }
};

struct LossAndCorrect {
  double loss;
  uint64_t correct;
};

// One row: the batch. Also clears non_finite for what follows.
struct BatchSums {
  using Value = LossAndCorrect;
  const double* losses;
  const Largest* largest;
  const uint32_t* labels;
  uint32_t rows;
  StepSums* sums;
  uint32_t steps;  // rows of a sample, of which each has its share
  MONSOON_PORTABLE LossAndCorrect Partial(uint32_t /*row*/, uint32_t thread,
                                          uint32_t threads) const {
    LossAndCorrect part = {0, 0};
    for (uint32_t n = thread; n < rows; n += threads) {
      part.loss += losses[n];
      part.correct += largest[n].index == labels[n] ? 1 : 0;
    }
    return part;
  }
  MONSOON_PORTABLE static LossAndCorrect Combine(LossAndCorrect a, LossAndCorrect b) {
    return {a.loss + b.loss, a.correct + b.correct};
  }
  MONSOON_PORTABLE void Finish(uint32_t /*row*/, LossAndCorrect total) const {
    *sums = StepSums{total.loss / steps, (total.correct + steps / 2) / steps, 0, 0};
  }
};

}  // namespace monsoon::cuda
