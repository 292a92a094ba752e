// RestartBackoff: whether and when a task that has died is started again: after
// `first`, doubled with each death in a row up to `longest`, and no more after
// `max_deaths` in a row. A healthy life ends the row.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace monsoon {

// What a process has done until it died.
struct TaskLife {
  static constexpr absl::Duration kHealthyService = absl::Seconds(10);

  // Since it listened; zero if it never did.
  absl::Duration served;
  // It has written a part of a generation: the job has come further by this life.
  bool made_checkpoint = false;

  // A task that dies of what it does at its start, or of the first pushes, dies before.
  bool healthy() const { return made_checkpoint || served >= kHealthyService; }
};

class RestartBackoff {
 public:
  // Of `max_deaths` 0 is no limit.
  RestartBackoff(absl::Duration first, absl::Duration longest, uint32_t max_deaths)
      : first_(first), longest_(longest), max_deaths_(max_deaths), next_(first) {}

  // A process died. When it starts again; nothing: it is given up.
  std::optional<absl::Duration> Died(absl::Duration now, const TaskLife& life);
  // It could not even be started.
  std::optional<absl::Duration> StartFailed(absl::Duration now) { return Died(now, {}); }

  // Deaths so far: of the process that comes next this is its restart's number.
  int restarts() const { return restarts_; }
  // Lives in a row that were not healthy.
  uint32_t deaths_in_a_row() const { return deaths_in_a_row_; }
  uint32_t max_deaths() const { return max_deaths_; }

 private:
  const absl::Duration first_;
  const absl::Duration longest_;
  const uint32_t max_deaths_;
  absl::Duration next_;
  uint32_t deaths_in_a_row_ = 0;
  int restarts_ = 0;
};

}  // namespace monsoon
