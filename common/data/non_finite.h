// What is not finite among the values of a data set, as scans tell it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/data/joined_array.h"

namespace monsoon {

class NonFinite {
 public:
  // The next value.
  void Look(double value) {
    if (!std::isfinite(value) && count_++ == 0) {
      first_ = seen_;
      value_ = value;
    }
    ++seen_;
  }

  // InvalidArgument that names the first one's sample and place, where there was one. The values
  // were those of `array`; samples are of `shape`, [] for one number each.
  absl::Status ToStatus(const JoinedArray& array, const std::vector<uint64_t>& shape) const {
    if (count_ == 0) {
      return absl::OkStatus();
    }
    std::vector<uint64_t> place(shape.size());
    uint64_t rest = first_;
    for (size_t i = place.size(); i-- > 0;) {
      place[i] = rest % shape[i];
      rest /= shape[i];
    }
    const std::string at =
        place.empty() ? "" : absl::StrCat(" at [", absl::StrJoin(place, ", "), "]");
    uint64_t values = 1;
    for (const uint64_t extent : shape) {
      values *= extent;
    }
    const uint64_t samples = seen_ / values;
    return absl::InvalidArgumentError(
        absl::StrCat(array.name, ": ", array.SampleText(rest), " has ", value_, at, "; ", count_,
                     " of the values of ", samples, samples == 1 ? " sample is" : " samples are",
                     " not finite"));
  }

 private:
  uint64_t seen_ = 0;
  uint64_t count_ = 0;
  uint64_t first_ = 0;
  double value_ = 0;
};

}  // namespace monsoon
