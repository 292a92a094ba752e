#include "common/data/table.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::Status TableOptions::CheckFeature(float value) const {
  const bool is_id =
      value >= 0 && value < static_cast<float>(id_limit) && value == std::trunc(value);
  return id_limit == 0 || is_id
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   ContentNumber(value, access.quoting),
                   " is not a whole number from 0 and below the embedding's ", id_limit, " rows"));
}

absl::Status TableOptions::CheckTarget(float target) const {
  return !targets_are_shares || (target >= 0 && target <= 1)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat(ContentNumber(target, access.quoting),
                                " is outside [0, 1], which BINARY_CROSS_ENTROPY needs"));
}

}  // namespace monsoon
