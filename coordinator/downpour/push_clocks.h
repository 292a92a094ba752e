// PushClocks: how many pushes each replica of a job with staleness_bound has made, its clock, and
// which of those that train is the slowest (stale synchronous parallel, Ho et al. 2013). A replica
// waits by itself; this only tells it.
//
// Clocks come from the replicas, as they stand now: a coordinator that is started anew asks nobody,
// and holds the slowest unknown until all that train have told theirs.
//
// A pure state machine: no clock of the day, no randomness. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "proto/coordinator.pb.h"

namespace monsoon {

class PushClocks {
 public:
  // `worker` has come as far as `clock`, and trains; `begins`: as of ClockRequest. `training`: all
  // that train. What a reply says of the least stays true as long as its reader trains: clocks do
  // not go back, and whoever begins goes on from the slowest.
  ClockReply Tell(uint32_t worker, uint64_t clock, bool begins, const std::set<uint32_t>& training);

  // The replica is no more; another life of it begins anew.
  void Remove(uint32_t worker) { clocks_.erase(worker); }

  // Nothing: it has not told.
  std::optional<uint64_t> of(uint32_t worker) const;

 private:
  std::map<uint32_t, uint64_t> clocks_;
};

}  // namespace monsoon
