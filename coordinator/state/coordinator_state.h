// CoordinatorState: all that a coordinator must not forget, changed only by
// Apply. Replaying the updates of a life gives the same state, byte for byte.
//
// Here: jobs with their plans, stages, reasons and events; sessions, and what each
// replica was told last; incarnation counters; the data that is done; test-set
// results; iterations; generations of checkpoints; pushes that are lost; failures, exclusions and
// fingerprints; the blocks that replicas hold; the figures of sessions that are closed; tokens to
// join with, and who has joined. Not here, since it is found out anew: which workers and shards are
// there (heartbeats, polls), contributions of an evaluation, statistics of open sessions, rates,
// commands under way.
//
// A pure class: no time, randomness, files or threads. Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

// A job that is added to its end again and again keeps so many events: the
// beginning tells how it started, the end what happened last.
inline constexpr int kMaxEvents = 1000;
// Iterations that are kept; the newest.
inline constexpr int kMaxIterations = 1000;
// Lives of the coordinator that the state remembers: more than begin before a shard answers one.
inline constexpr int kMaxLives = 256;

// What a batch returns to: the snapshot of the newest generation that is held; null: that
// generation is of no batch, or there is none.
const BatchSnapshot* HeldSnapshot(const DurableJob& job);

class CoordinatorState {
 public:
  CoordinatorState() = default;
  // As Serialize has told it.
  explicit CoordinatorState(CoordinatorSnapshot snapshot) : snapshot_(std::move(snapshot)) {}

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
  // In which it was given that; 0: likewise.
  uint64_t incarnation_term(uint32_t worker) const;
  // The process that got this number without being listed; 0: none.
  uint64_t guest(uint32_t worker) const;
  // All of the above; null: it has never joined.
  const WorkerIncarnation* FindIncarnation(uint32_t worker) const;
  // It was told to leave.
  bool draining(uint32_t worker) const;
  // What the shard said last; null: it has never answered.
  const ShardSeen* FindShard(uint32_t shard) const;

  // The same bytes for equal states.
  std::string Serialize() const;

 private:
  // Of updates that are not about one job.
  absl::Status ApplyToCluster(const StateUpdate& update);
  absl::Status ApplyToJob(const StateUpdate& update, DurableJob* job);

  CoordinatorSnapshot snapshot_;
};

// Nothing that leaves the coordinator rests on this update: what follows from it may be
// told before it is on the disk. Figures, events, and answers that promise nothing.
bool MayLag(const StateUpdate& update);

// Whether a job may go from one stage to the other.
bool MayFollow(JobStage from, JobStage to);

}  // namespace monsoon
