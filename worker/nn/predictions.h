// What a network's last outputs say of samples, as its loss understands them.
#pragma once

#include <cstdint>
#include <span>

#include "worker/nn/loss_plan.h"

namespace monsoon {

enum class PredictionKind {
  kProbabilities,             // of the classes, which add up to 1: the outputs' softmax
  kIndependentProbabilities,  // of each output by itself: its sigmoid
  kValues,                    // the outputs as they are
};
PredictionKind PredictionKindOf(const LossPlan& plan);
// "probabilities", "independent_probabilities", "values".
const char* Name(PredictionKind kind);

// The class that the outputs of one step tell: the largest one's, of equal ones the first; of a
// loss that says yes or no, 1 where the one output is above 0. Of the outputs themselves: of the
// probabilities of them, rounded, two may be equal. Of no meaning for kValues.
uint32_t PredictedLabel(const LossPlan& plan, std::span<const float> row);
uint32_t PredictedLabel(const LossPlan& plan, std::span<const double> row);

// Where predictions of n steps go.
struct PredictionSpans {
  std::span<float> values;       // [n, plan.outputs]
  std::span<uint32_t> labels{};  // [n], or empty: nobody asks
};

// `outputs` is [n, plan.outputs]. Computed in double; an output that is not finite gives NaN, with
// the softmax in its whole row.
void PredictionsOf(const LossPlan& plan, std::span<const float> outputs,
                   const PredictionSpans& predictions);
void PredictionsOf(const LossPlan& plan, std::span<const double> outputs,
                   const PredictionSpans& predictions);

}  // namespace monsoon
