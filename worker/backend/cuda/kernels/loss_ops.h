// Losses of proto/model.proto; a row is a step of a sample. Softmax cross-entropy in four
// launches: the largest output of each row, its sums of exponentials and loss, the gradient, and
// the sums over the batch. The others are a sum of terms, one for each output. No NaN and no
// infinity is hidden: either gives a loss that is not finite.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// What a step answers, in device memory.
struct StepSums {
  double loss;          // over the batch
  double correct;       // of sequences the sum of the samples' shares
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
  double below;   // of all outputs, how far each is below the largest; 0 without smoothing
};

// Shifted by the largest, no exponential overflows. The sum beside the largest
// stays apart from its 1, so that a small loss keeps its digits.
struct RowLoss {
  using Value = RowSums;
  const float* outputs;
  const uint32_t* labels;
  const Largest* largest;
  uint32_t classes;
  RowSums* sums;                   // [examples]
  double* losses;                  // [examples]
  double smoothing = 0;            // shared by all classes, and not the label's
  const float* weights = nullptr;  // [examples]; null: 1 each
  MONSOON_PORTABLE RowSums Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    RowSums part = {0, 0, 0};
    for (uint32_t c = thread; c < classes; c += threads) {
      const bool top = c == largest[row].index;
      const float value = top ? 1.0f : expf(outputs[row * classes + c] - largest[row].value);
      part.beside += top ? 0.0f : value;
      part.others += c == labels[row] ? 0.0f : value;
      if (smoothing > 0) {
        part.below += largest[row].value - outputs[row * classes + c];
      }
    }
    return part;
  }
  MONSOON_PORTABLE static RowSums Combine(RowSums a, RowSums b) {
    return {a.beside + b.beside, a.others + b.others, a.below + b.below};
  }
  MONSOON_PORTABLE void Finish(uint32_t row, RowSums total) const {
    sums[row] = total;
    const double ahead = static_cast<double>(largest[row].value) -
                         static_cast<double>(outputs[row * classes + labels[row]]);
    double loss = log1p(total.beside) + ahead;
    if (smoothing > 0) {
      loss += smoothing * (total.below / classes - ahead);
    }
    losses[row] = weights == nullptr ? loss : weights[row] * loss;
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
  float smoothing = 0;
  const float* weights = nullptr;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = classes.Quotient(i);
    const uint32_t c = i - row * classes.value();
    const float value = c == labels[row]          ? -static_cast<float>(sums[row].others)
                        : c == largest[row].index ? 1.0f
                                                  : expf(outputs[i] - largest[row].value);
    const float total = static_cast<float>(1.0 + sums[row].beside);
    float slope = value / total * (per_example * control->loss_scale);
    if (smoothing > 0) {
      const float target =
          (c == labels[row] ? smoothing : 0.0f) - smoothing / static_cast<float>(classes.value());
      slope += target * (per_example * control->loss_scale);
    }
    diff[i] = weights == nullptr ? slope : weights[row] * slope;
  }
};

// A loss that is a sum over a row's outputs, each against a target.
struct LossTerms {
  enum class Kind { kOneVersusAll, kBinary, kSquared };
  Kind kind;
  const float* outputs;    // [rows, columns]
  const uint32_t* labels;  // [rows]
  const float* targets;    // [rows, columns]; of meaning where the control says so
  const StepControl* control;
  uint32_t columns;
  float smoothing;  // of kBinary: shared by yes and no

  MONSOON_PORTABLE bool has_targets() const {
    return kind != Kind::kOneVersusAll && control->has_targets != 0;
  }
  MONSOON_PORTABLE float Target(uint32_t row, uint32_t c) const {
    if (has_targets()) {
      return targets[row * columns + c];
    }
    // With one output the label is its target.
    return columns == 1 && kind != Kind::kOneVersusAll ? static_cast<float>(labels[row])
           : c == labels[row]                          ? 1.0f
                                                       : 0.0f;
  }
  MONSOON_PORTABLE float Smoothed(float target) const {
    return kind == Kind::kBinary ? (1.0f - smoothing) * target + 0.5f * smoothing : target;
  }
  MONSOON_PORTABLE double Loss(uint32_t row, uint32_t c) const {
    const float x = outputs[row * columns + c];
    const float target = Smoothed(Target(row, c));
    if (kind == Kind::kSquared) {
      return static_cast<double>(x - target) * (x - target);
    }
    // -t log sigmoid(x) - (1 - t) log sigmoid(-x); x - x shows what is not finite.
    const double apart =
        x >= 0.0f ? (1.0f - target) * static_cast<double>(x) : -target * static_cast<double>(x);
    return static_cast<double>(log1pf(expf(-fabsf(x)))) + apart + static_cast<double>(x - x);
  }
  MONSOON_PORTABLE float Slope(uint32_t row, uint32_t c) const {
    const float x = outputs[row * columns + c];
    const float target = Smoothed(Target(row, c));
    if (kind == Kind::kSquared) {
      return 2.0f * (x - target);
    }
    const float small = expf(-fabsf(x));
    const float close = 1.0f / (1.0f + small), far = small / (1.0f + small);
    return (1.0f - target) * (x >= 0.0f ? close : far) - target * (x >= 0.0f ? far : close);
  }
};

struct TermsLoss {
  using Value = double;
  LossTerms terms;
  double share;          // of each output in its row's loss
  const float* weights;  // [rows]; null: 1 each
  double* losses;        // [rows]
  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    double part = 0;
    for (uint32_t c = thread; c < terms.columns; c += threads) {
      part += terms.Loss(row, c);
    }
    return part;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double total) const {
    losses[row] = (weights == nullptr ? share : share * weights[row]) * total;
  }
};

// Count: rows * columns.
struct TermsGradient {
  LossTerms terms;
  Divisor columns;
  float factor;  // a term's share of the batch's mean
  const float* weights;
  float* diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = columns.Quotient(i);
    const float slope =
        terms.Slope(row, i - row * columns.value()) * (factor * terms.control->loss_scale);
    diff[i] = weights == nullptr ? slope : weights[row] * slope;
  }
};

// No label.
constexpr uint32_t kWrong = UINT32_MAX;

// For BatchSums, of rows whose largest output says nothing: the label where the one output is on
// its target's side, else kWrong; of squares always. Count: rows.
struct JudgeTerms {
  LossTerms terms;
  Largest* largest;
  MONSOON_PORTABLE void operator()(uint32_t row) const {
    const bool yes = terms.outputs[row * terms.columns] > 0.0f;
    const bool right =
        terms.kind == LossTerms::Kind::kBinary && yes == (terms.Target(row, 0) >= 0.5f);
    largest[row] = {0.0f, right ? terms.labels[row] : kWrong};
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
  const StepControl* unjudged_with_targets = nullptr;  // null: rows have labels in any case
  MONSOON_PORTABLE LossAndCorrect Partial(uint32_t /*row*/, uint32_t thread,
                                          uint32_t threads) const {
    LossAndCorrect part = {0, 0};
    const bool judged = unjudged_with_targets == nullptr || unjudged_with_targets->has_targets == 0;
    for (uint32_t n = thread; n < rows; n += threads) {
      part.loss += losses[n];
      part.correct += judged && largest[n].index == labels[n] ? 1 : 0;
    }
    return part;
  }
  MONSOON_PORTABLE static LossAndCorrect Combine(LossAndCorrect a, LossAndCorrect b) {
    return {a.loss + b.loss, a.correct + b.correct};
  }
  MONSOON_PORTABLE void Finish(uint32_t /*row*/, LossAndCorrect total) const {
    *sums = StepSums{total.loss / steps, static_cast<double>(total.correct) / steps, 0, 0};
  }
};

}  // namespace monsoon::cuda
