#include "common/base/backoff.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace monsoon {

absl::Duration Backoff::Next() {
  const double plan = absl::ToDoubleSeconds(options_.initial) *
                      std::pow(options_.factor, static_cast<double>(std::min(count_, 64u)));
  const double longest = std::min(plan, absl::ToDoubleSeconds(options_.maximum));
  const PhiloxStream dice(seed_, StreamKind::kTest, /*sub=*/1);
  const double share = 1.0 - options_.jitter * dice.Uniform(count_);
  ++count_;
  return absl::Seconds(longest * share);
}

}  // namespace monsoon
