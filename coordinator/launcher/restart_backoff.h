// RestartBackoff: how long to wait before a task that has died is started
// again: first_backoff, doubled with each death up to longest_backoff. A
// process that lived for kHealthyLife has earned the first one again.
//
// Thread safety: none.
#pragma once

#include "absl/time/time.h"

namespace monsoon {

class RestartBackoff {
 public:
  static constexpr absl::Duration kHealthyLife = absl::Minutes(1);

  RestartBackoff(absl::Duration first, absl::Duration longest)
      : first_(first), longest_(longest), next_(first) {}

  // A process died after it `lived`. When it starts again.
  absl::Duration Died(absl::Duration now, absl::Duration lived);
  // It could not even be started.
  absl::Duration StartFailed(absl::Duration now) { return Died(now, absl::ZeroDuration()); }

  // Deaths so far: of the process that comes next this is its restart's number.
  int restarts() const { return restarts_; }

 private:
  const absl::Duration first_;
  const absl::Duration longest_;
  absl::Duration next_;
  int restarts_ = 0;
};

}  // namespace monsoon
