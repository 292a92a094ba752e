// CoordinatorState: all that a coordinator must not forget, changed only by
// Apply. Replaying the updates of a life gives the same state, byte for byte.
//
// Here: jobs with their plans, stages, reasons and events; sessions, and what each
// replica was told last; incarnation counters; the data that is done; test-set
// results; iterations; generations of checkpoints; pushes that are lost; failures, exclusions and
// fingerprints. Not here, since it is found out anew: members and shards (heartbeats, polls),
// leases, prefetch, contributions of an evaluation, statistics and rates, commands
// under way.
//
// A pure class: no time, randomness, files or threads. Not thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

// A job that is added to its end again and again keeps so many events: the
// beginning tells how it started, the end what happened last.
inline constexpr int kMaxEvents = 1000;
// Iterations that are kept; the newest.
inline constexpr int kMaxIterations = 1000;

class CoordinatorState {
 public:
  // An update that does not fit the state (an unknown job, a stage that cannot
  // follow, a worker that is not there) changes nothing: FailedPrecondition names
  // the job and the update.
  absl::Status Apply(const StateUpdate& update);

  // All of it. A job keeps its address until it is removed; other references into
  // this are valid until the next Apply.
  const CoordinatorSnapshot& snapshot() const { return snapshot_; }

  // Null when there is none.
  const DurableJob* FindJob(const std::string& id) const;
  // The job that was submitted under this client id, not ""; null when there is
  // none.
  const DurableJob* FindClient(const std::string& client_id) const;
  // 0: it has never joined.
  uint64_t incarnation(uint32_t worker) const;

  // The same bytes for equal states.
  std::string Serialize() const;

 private:
  absl::Status ApplyToJob(const StateUpdate& update, DurableJob* job);

  CoordinatorSnapshot snapshot_;
};

// Whether a job may go from one stage to the other.
bool MayFollow(JobStage from, JobStage to);

}  // namespace monsoon
