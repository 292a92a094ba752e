#include "worker/confusion.h"

#include "common/base/check.h"

namespace monsoon {
namespace {

std::optional<double> Share(uint64_t part, uint64_t all) {
  return all == 0 ? std::nullopt
                  : std::make_optional(static_cast<double>(part) / static_cast<double>(all));
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::span<const Prediction> predictions, uint64_t classes)
    : classes_(classes), counts_(classes * classes) {
  for (const Prediction& one : predictions) {
    CHECK(one.label < classes && one.predicted < classes);
    ++counts_[one.label * classes + one.predicted];
  }
}

uint64_t ConfusionMatrix::samples(uint64_t label) const {
  uint64_t sum = 0;
  for (uint64_t predicted = 0; predicted < classes_; ++predicted) {
    sum += count(label, predicted);
  }
  return sum;
}

std::optional<double> ConfusionMatrix::precision(uint64_t c) const {
  uint64_t taken = 0;
  for (uint64_t label = 0; label < classes_; ++label) {
    taken += count(label, c);
  }
  return Share(count(c, c), taken);
}

std::optional<double> ConfusionMatrix::recall(uint64_t c) const {
  return Share(count(c, c), samples(c));
}

}  // namespace monsoon
