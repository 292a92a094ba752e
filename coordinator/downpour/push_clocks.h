// PushClocks: how many pushes each replica of a job with staleness_bound has made, its clock, and
// which of those that train is the slowest (stale synchronous parallel, Ho et al. 2013). A replica
// waits by itself; this only tells it.
//
// Clocks come from the replicas, as they stand now. One that has had nothing to train on *waits*:
// it computes nothing before it has told where it begins, so it holds nobody up. A coordinator that
// is started anew knows of none of them whether they wait or compute, and says nothing of the
// slowest until all that train have told.
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
  // `worker` trains, and says how far it has come. `training`: all that train. What a reply says of
  // the least stays true as long as its reader trains: clocks do not go back meanwhile, and whoever
  // begins goes on from the slowest.
  ClockReply Tell(uint32_t worker, const ClockRequest& told, const std::set<uint32_t>& training);

  // A replica whose session begins, or who has nothing to train on: it waits.
  void Rest(uint32_t worker);
  // It is no more.
  void Remove(uint32_t worker) { replicas_.erase(worker); }

  // Nothing: it waits, or has not told.
  std::optional<uint64_t> of(uint32_t worker) const;

 private:
  struct Replica {
    bool waits = false;
    uint64_t clock = 0;
    uint64_t call = 0;
  };
  std::map<uint32_t, Replica> replicas_;
};

}  // namespace monsoon
