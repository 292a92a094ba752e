// ConfusionMatrix: how often samples of each class were taken for which.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/nn/test_figures.h"

namespace monsoon {

class ConfusionMatrix {
 public:
  // Labels and predictions are below `classes`.
  ConfusionMatrix(std::span<const Prediction> predictions, uint64_t classes);

  uint64_t classes() const { return classes_; }
  uint64_t count(uint64_t label, uint64_t predicted) const {
    return counts_[label * classes_ + predicted];
  }
  uint64_t samples(uint64_t label) const;
  // The share of what was taken for `c` that is of it; of what is of it, the share that was taken
  // for it. Nothing where there is none.
  std::optional<double> precision(uint64_t c) const;
  std::optional<double> recall(uint64_t c) const;

 private:
  uint64_t classes_;
  std::vector<uint64_t> counts_;  // [label, predicted]
};

}  // namespace monsoon
