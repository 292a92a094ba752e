#include "coordinator/launcher/restart_backoff.h"

#include <algorithm>

namespace monsoon {

absl::Duration RestartBackoff::Died(absl::Duration now, absl::Duration lived) {
  if (lived >= kHealthyLife) {
    next_ = first_;
  }
  const absl::Duration at = now + next_;
  next_ = std::min(2 * next_, longest_);
  ++restarts_;
  return at;
}

}  // namespace monsoon
