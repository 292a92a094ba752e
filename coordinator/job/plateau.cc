#include "coordinator/job/plateau.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultPatience = 2;

}  // namespace

Plateau Plateau::From(const PlateauSchedule& schedule) {
  return {.metric = schedule.by_accuracy() ? TEST_ACCURACY : TEST_LOSS,
          .patience = schedule.patience() == 0 ? kDefaultPatience : schedule.patience(),
          .min_change = schedule.min_change()};
}

Plateau Plateau::From(const EarlyStop& early) {
  return {.metric = early.metric(),
          .patience = std::max(1u, early.patience()),
          .min_change = early.min_change()};
}

std::string Plateau::Text() const {
  return absl::StrCat("the test ", metric == TEST_ACCURACY ? "accuracy" : "loss",
                      " has not become better ",
                      min_change > 0 ? absl::StrCat("by ", min_change, " ") : "", "in ", patience,
                      patience == 1 ? " evaluation" : " evaluations");
}

uint32_t CountPlateaus(const Plateau& plateau, std::span<const TestResult> results) {
  const bool by_accuracy = plateau.metric == TEST_ACCURACY;
  std::optional<double> best;  // of what is to grow
  uint32_t plateaus = 0, in_a_row = 0;
  for (const TestResult& result : results) {
    if (result.final || !(by_accuracy ? result.has_accuracy() : result.has_loss())) {
      continue;
    }
    const double figure = by_accuracy ? result.accuracy : -result.loss;
    if (!std::isnan(figure) && (!best || figure > *best + plateau.min_change)) {
      best = figure;
      in_a_row = 0;
    } else if (++in_a_row >= plateau.patience) {
      ++plateaus;
      in_a_row = 0;
    }
  }
  return plateaus;
}

}  // namespace monsoon
