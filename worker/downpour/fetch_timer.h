// FetchTimer: when an overlapped fetch should start, and for how long a round may take. A fetch
// that starts with a step and lands early only ages until the step ends, so it is held back to
// land just before: the later it reads, the fewer pushes of others the next
// step's parameters miss.
//
// A pure state machine over measured times. Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace monsoon {

class FetchTimer {
 public:
  // A held-back fetch is to land after this share of the step; the rest, and
  // once more the fetch's own time, are kept against jitter. With three LeNet
  // replicas on two busy cores the mean staleness went from 5.1 to 4.0.
  static constexpr double kLandsAt = 0.8;

  void NoteStep(absl::Duration duration) { Update(duration, &step_); }
  void NoteFetch(absl::Duration duration) { Update(duration, &fetch_); }
  // Of a step, without waits; and of a push, to its acknowledgement.
  void NoteCompute(absl::Duration duration) { Update(duration, &compute_); }
  void NotePush(absl::Duration duration) { Update(duration, &push_); }

  // How long a fetch that is due at the start of a step waits. Zero until
  // both were seen, and where a fetch takes as long as a step.
  absl::Duration Delay() const {
    if (step_ == absl::ZeroDuration() || fetch_ == absl::ZeroDuration()) {
      return absl::ZeroDuration();
    }
    return std::max(absl::ZeroDuration(), step_ * kLandsAt - fetch_ * 2);
  }

  // For how long a replica goes on that has pushed, and that what comes of it must have reached
  // after so many steps: tau * xi_step - xi_sync of Decoupled DiLoCo's equation 3 (arXiv
  // 2604.21428), a fetch being taken to last as long as a push. Zero before a step was seen.
  absl::Duration Patience(uint32_t steps) const {
    return std::max(absl::ZeroDuration(), compute_ * steps - push_);
  }

 private:
  // Weight of the newest value in the running means.
  static constexpr double kWeight = 0.1;

  // A value counts as twice the mean at most: a stopped process is no long step.
  static void Update(absl::Duration value, absl::Duration* mean) {
    if (*mean == absl::ZeroDuration()) {
      *mean = value;
    } else {
      *mean += (std::min(value, *mean * 2) - *mean) * kWeight;
    }
  }

  absl::Duration step_;
  absl::Duration fetch_;
  absl::Duration compute_;
  absl::Duration push_;
};

}  // namespace monsoon
