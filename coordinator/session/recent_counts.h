// RecentCounts: what was counted in the last seconds, out of counts by value that grow over whole
// sessions (ReplicaStats). A quantile since the beginning hardly moves once a job has run for an
// hour, whatever happens to it.
//
// `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "absl/time/time.h"
#include "google/protobuf/map.h"

namespace monsoon {

template <typename Value>
class RecentCounts {
 public:
  using Counts = google::protobuf::Map<Value, uint64_t>;

  // A session's counts grew from `before` to `after`.
  void Add(absl::Duration now, const Counts& before, const Counts& after) {
    while (!slots_.empty() && now - slots_.front().began > kWindow) {
      slots_.pop_front();
    }
    for (const auto& [value, count] : after) {
      const auto known = before.find(value);
      const uint64_t old = known == before.end() ? 0 : known->second;
      if (count <= old) {
        continue;
      }
      if (slots_.empty() || now - slots_.back().began >= kSlot) {
        slots_.push_back({now, {}});
      }
      slots_.back().counts[value] += count - old;
    }
  }
  // Over the last kWindow.
  std::map<Value, uint64_t> Sum(absl::Duration now) const {
    std::map<Value, uint64_t> sum;
    for (const Slot& slot : slots_) {
      if (now - slot.began > kWindow) {
        continue;
      }
      for (const auto& [value, count] : slot.counts) {
        sum[value] += count;
      }
    }
    return sum;
  }

 private:
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // What comes within so short a time is kept as one.
  static constexpr absl::Duration kSlot = absl::Seconds(1);

  struct Slot {
    absl::Duration began;
    std::map<Value, uint64_t> counts;
  };

  std::deque<Slot> slots_;
};

}  // namespace monsoon
