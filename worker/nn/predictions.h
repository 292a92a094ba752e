// What a network's last outputs say of samples, as its loss understands them.
#pragma once

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

// Both are [n, plan.outputs]. Computed in double; an output that is not finite gives NaN, with
// the softmax in its whole row.
void PredictionsOf(const LossPlan& plan, std::span<const float> outputs,
                   std::span<float> predictions);
void PredictionsOf(const LossPlan& plan, std::span<const double> outputs,
                   std::span<float> predictions);

}  // namespace monsoon
