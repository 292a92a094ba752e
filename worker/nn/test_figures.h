// What a test set tells of a network beside loss and accuracy: an evaluation by name.
//
//   top5           share of samples whose label is among the five largest outputs; of 5 classes
//                  or more
//   auc            of one output that says yes or no: how often it is larger for a yes than for
//                  a no, over all such pairs of the test set; equal ones count half
//   mse            mean over samples and outputs of (output - target)^2; of a regression
//   bits_per_byte  of sequences of softmax over 256 outputs: mean loss / log 2
//
// Sample weights count in the loss alone, and there is no bits_per_byte with weights or smoothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/nn/loss_plan.h"

namespace monsoon {

// Which class a sample has and which one its outputs tell.
struct Prediction {
  uint32_t label = 0;
  uint32_t predicted = 0;
  float score = 0;  // of one output that says yes or no: itself

  bool operator==(const Prediction&) const = default;
};

// Of one batch.
struct Judgement {
  // Of samples with one label, in their order; of the Judge until its next call.
  std::span<const Prediction> predictions;
  bool has_scores = false;
  // Samples whose label is among the five largest outputs.
  std::optional<uint64_t> top5;
  std::optional<double> squared_error;  // summed over the samples: of each the mean
  bool is_of_bytes = false;
};

// Looks at outputs; a network's own. Allocates nothing once a batch size has been seen.
class Judge {
 public:
  explicit Judge(const LossPlan& plan) : plan_(plan) {}
  // `outputs` is [targets.examples, plan.steps, plan.outputs].
  Judgement Of(std::span<const float> outputs, const LossTargets& targets);
  Judgement Of(std::span<const double> outputs, const LossTargets& targets);

 private:
  template <typename Value>
  Judgement OfValues(std::span<const Value> outputs, const LossTargets& targets);

  LossPlan plan_;
  std::vector<Prediction> predictions_;
};

// Of a whole test set.
class TestFigures {
 public:
  // The next batch's, of `examples` samples.
  void Add(const Judgement& judgement, uint64_t examples);

  // By name: accuracy and loss, where `accuracy` is known, and what else there is. Nothing where
  // loss and accuracy are all.
  std::vector<std::pair<std::string, double>> Metrics(double mean_loss,
                                                      std::optional<double> accuracy) const;
  // Of all samples with one label, in their order.
  std::span<const Prediction> predictions() const { return predictions_; }

 private:
  std::vector<Prediction> predictions_;
  bool has_scores_ = false;
  uint64_t examples_ = 0;
  std::optional<uint64_t> top5_;
  std::optional<double> squared_error_;
  bool is_of_bytes_ = false;
};

// The area under the curve of true over false positives (label 1 is yes): the share of pairs of a
// yes and a no in which the yes has the higher score, with half of the equal ones. Nothing without
// both, or with a score that is not a number.
std::optional<double> AreaUnderCurve(std::span<const Prediction> predictions);

}  // namespace monsoon
