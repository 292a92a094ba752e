#include "coordinator/launcher/restart_backoff.h"

#include <algorithm>

namespace monsoon {

std::optional<absl::Duration> RestartBackoff::Died(absl::Duration now, const TaskLife& life) {
  ++deaths_in_a_row_;
  if (life.healthy()) {
    deaths_in_a_row_ = 0;
    next_ = first_;
  }
  if (max_deaths_ > 0 && deaths_in_a_row_ >= max_deaths_) {
    return std::nullopt;
  }
  const absl::Duration at = now + next_;
  next_ = std::min(2 * next_, longest_);
  ++restarts_;
  return at;
}

}  // namespace monsoon
