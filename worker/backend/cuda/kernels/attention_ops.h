// Scaled dot-product attention between products: heads side by side in rows, or each one's matrix
// by itself, and softmax over the steps that a step sees.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// Between rows [n, step][part][head][width] and heads [part][n][head][step][width]; parts are q,
// k and v, or a single one. Element i is of the rows. Count: all.
struct HeadShape {
  Divisor width;
  Divisor heads;
  Divisor parts;
  Divisor steps;
  uint32_t examples;
  MONSOON_PORTABLE uint32_t InHeads(uint32_t i) const {
    const uint32_t of_head = width.Quotient(i);
    const uint32_t of_part = heads.Quotient(of_head);
    const uint32_t row = parts.Quotient(of_part);
    const uint32_t n = steps.Quotient(row);
    const uint32_t part = of_part - row * parts.value();
    const uint32_t head = of_head - of_part * heads.value();
    const uint32_t step = row - n * steps.value();
    const uint32_t matrix = (part * examples + n) * heads.value() + head;
    return (matrix * steps.value() + step) * width.value() + (i - of_head * width.value());
  }
};

struct SplitHeads {
  HeadShape shape;
  const float* rows;
  float* heads;
  MONSOON_PORTABLE void operator()(uint32_t i) const { heads[shape.InHeads(i)] = rows[i]; }
};

struct JoinHeads {
  HeadShape shape;
  const float* heads;
  float* rows;
  MONSOON_PORTABLE void operator()(uint32_t i) const { rows[i] = heads[shape.InHeads(i)]; }
};

// Rows of scores [n, head, step][steps]: how many from the first a row's step sees.
struct SeenSteps {
  Divisor steps;
  bool causal;
  MONSOON_PORTABLE uint32_t operator()(uint32_t row) const {
    return causal ? steps.Remainder(row) + 1 : steps.value();
  }
};

// largest[row] of those seen. A NaN among them stays.
struct LargestScore {
  using Value = float;
  SeenSteps seen;
  const float* scores;
  float* largest;
  MONSOON_PORTABLE float Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    float best = -INFINITY;
    for (uint32_t s = thread; s < seen(row); s += threads) {
      best = Combine(best, scores[row * seen.steps.value() + s]);
    }
    return best;
  }
  MONSOON_PORTABLE static float Combine(float a, float b) { return a >= b || a != a ? a : b; }
  MONSOON_PORTABLE void Finish(uint32_t row, float best) const { largest[row] = best; }
};

// sums[row] of exp(scale (score - largest)).
struct ScoreSum {
  using Value = double;
  SeenSteps seen;
  float scale;
  const float* scores;
  const float* largest;
  float* sums;
  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    double sum = 0;
    for (uint32_t s = thread; s < seen(row); s += threads) {
      sum += static_cast<double>(
          expf(scale * (scores[row * seen.steps.value() + s] - largest[row])));
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double sum) const {
    sums[row] = static_cast<float>(sum);
  }
};

// Scores become probabilities, 0 where nothing is seen. Count: scores.
struct ScoresToShares {
  SeenSteps seen;
  float scale;
  const float* largest;
  const float* sums;
  float* scores;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = seen.steps.Quotient(i);
    const bool sees = i - row * seen.steps.value() < seen(row);
    scores[i] = sees ? expf(scale * (scores[i] - largest[row])) / sums[row] : 0.0f;
  }
};

// means[row] = sum of p dp.
struct ShareDiffMean {
  using Value = double;
  uint32_t steps;
  const float* shares;
  const float* diffs;
  float* means;
  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    double sum = 0;
    for (uint32_t s = thread; s < steps; s += threads) {
      const uint32_t at = row * steps + s;
      sum += static_cast<double>(shares[at] * diffs[at]);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double sum) const {
    means[row] = static_cast<float>(sum);
  }
};

// diffs become those of the scores, times the scale. Count: scores.
struct ShareDiffsToScores {
  Divisor steps;
  float scale;
  const float* shares;
  const float* means;
  float* diffs;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    diffs[i] = scale * shares[i] * (diffs[i] - means[steps.Quotient(i)]);
  }
};

}  // namespace monsoon::cuda
