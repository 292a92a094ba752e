// When a test set's figure gets no better: what a PlateauSchedule and an EarlyStop follow. Pure
// functions of the runs over the test set, so that what follows from them needs no state.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "coordinator/job/test_results.h"
#include "proto/job.pb.h"

namespace monsoon {

// What an event "finishing" begins with where Stop.early has ended the training.
inline constexpr char kStoppedEarly[] = "stopped early: ";

class PlateauSchedule;

struct Plateau {
  TestMetric metric = TEST_LOSS;  // or TEST_ACCURACY
  uint32_t patience = 1;          // at least 1
  double min_change = 0;

  static Plateau From(const PlateauSchedule& schedule);
  static Plateau From(const EarlyStop& early);
  // "the test loss has not become better in 3 evaluations".
  std::string Text() const;
};

// How often, in `results` in their order, the figure has not become better than its best by
// min_change in `patience` of them in a row; they count anew then. Results without it are passed
// over, as are final ones.
uint32_t CountPlateaus(const Plateau& plateau, std::span<const TestResult> results);

}  // namespace monsoon
