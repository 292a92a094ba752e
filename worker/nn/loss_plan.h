// LossPlan: what a network is trained and judged by, defaults filled in. Plain C++.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace monsoon {

// Loss of proto/model.proto, which has the equations.
enum class LossKind {
  kSoftmaxCrossEntropy,
  kOneVersusAllLogistic,
  kBinaryCrossEntropy,
  kMeanSquaredError,
};

struct LossPlan {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  uint64_t outputs = 0;              // at each step
  uint64_t steps = 1;                // labels of one sample
  uint64_t classes = 0;              // labels are below; 0: any, of a regression
  std::vector<float> class_weights;  // [classes], or empty: 1 each
  double label_smoothing = 0;

  // Whether a label is yes or no, and the one output's sign tells it.
  bool is_yes_or_no() const { return kind == LossKind::kBinaryCrossEntropy && outputs == 1; }
};

// What a batch's outputs should be; of `examples` samples.
struct LossTargets {
  std::span<const uint32_t> labels;  // [examples, steps], or empty
  std::span<const float> targets;    // [examples, steps * outputs], or empty
  std::span<const float> weights;    // [examples], or empty: 1 each
  uint64_t examples = 0;
};

struct LossSums {
  double loss = 0;  // summed over the samples
  // Samples whose largest output is their label's, or whose one output has its sign; of sequences
  // the sum of the samples' shares of such steps.
  double correct = 0;
  uint64_t unjudged = 0;  // samples of which nobody can say that: they have targets
};

}  // namespace monsoon
