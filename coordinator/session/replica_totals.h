// ReplicaTotals: the statistics of all sessions of a job, lost ones included.
// Each session reports totals since it was opened; they are kept per session
// and summed here, so nothing is counted twice and nothing is forgotten.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "proto/coordinator.pb.h"

namespace monsoon {

class ReplicaTotals {
 public:
  // Totals of one session. Older ones than those known (reports may overtake
  // each other) are ignored.
  void Record(uint32_t worker, uint64_t incarnation, const ReplicaStats& stats);

  // Sums over all sessions, as AddFigures makes them.
  ReplicaStats Sum() const;
  ReplicaStats SumOf(uint32_t worker) const;
  // Of one session; all zero where it has reported nothing.
  ReplicaStats Of(uint32_t worker, uint64_t incarnation) const;
  uint64_t steps() const { return steps_; }
  uint64_t examples() const { return examples_; }
  std::set<uint32_t> workers() const;

  // Means of the recent loss and accuracy over those of `workers` that have made a step; over
  // all workers when none of them has. Each is over those that know it, and nothing where none
  // does. A worker's figure does not begin anew with its session.
  struct Recent {
    std::optional<double> loss;
    std::optional<double> accuracy;
  };
  std::optional<Recent> RecentOf(const std::set<uint32_t>& workers) const;

 private:
  std::map<std::pair<uint32_t, uint64_t>, ReplicaStats> sessions_;
  uint64_t steps_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace monsoon
