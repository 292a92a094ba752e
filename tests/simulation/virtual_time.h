// VirtualTime: what happens when, in a simulation: one event after the other, and time
// passes between them. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace monsoon::simulation {

class VirtualTime {
 public:
  absl::Duration now() const { return now_; }

  // `what` happens at `at`, or now if that is over; of two at one time the one that was
  // asked for first.
  void At(absl::Duration at, std::function<void()> what) {
    events_.push_back({std::max(at, now_), order_++, std::move(what)});
    std::push_heap(events_.begin(), events_.end(), Later);
  }
  void After(absl::Duration delay, std::function<void()> what) {
    At(now_ + delay, std::move(what));
  }

  // The next event happens. False: there is none.
  bool RunNext() {
    if (events_.empty()) {
      return false;
    }
    std::pop_heap(events_.begin(), events_.end(), Later);
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.at;
    event.what();
    return true;
  }

 private:
  struct Event {
    absl::Duration at;
    uint64_t order = 0;
    std::function<void()> what;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  absl::Duration now_ = absl::Seconds(1000);
  uint64_t order_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace monsoon::simulation
