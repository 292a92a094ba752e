// Registry: what all controllers share: the cluster file, the durable state, members, shards,
// jobs, and the log. And what each of them may do to a job: end it.
//
// No threads, clocks, randomness or gRPC. Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/job_table.h"
#include "coordinator/session/membership.h"
#include "coordinator/shards/shard_monitor.h"
#include "coordinator/state/state_writer.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

// When something happened: `now` for durations (never goes back), `unix_ms`
// for people.
struct Moment {
  absl::Duration now;
  int64_t unix_ms = 0;
};

class Registry {
 public:
  // As CoordinatorCore's; this life begins now.
  Registry(const Cluster& cluster, uint32_t pid, Moment now, StateWriter::Observer observer,
           CoordinatorState state);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Of this coordinator.
  uint64_t term() const { return writer.state().snapshot().term(); }
  // A line for the log.
  void Log(std::string line) { log.push_back(std::move(line)); }

  // The job ends so: at once if no session was opened, else when its sessions are closed. Of
  // one that is ending well already the end becomes another.
  void End(JobRecord* job, JobState state, const std::string& reason, absl::Duration now);
  // All sessions of the ending job are closed.
  void FinishEnding(JobRecord* job, absl::Duration now);

  const Cluster cluster;
  const uint32_t pid;
  const absl::Duration started;
  const int64_t started_unix_ms;
  StateWriter writer;  // the durable state; all that follows is volatile
  Membership membership;
  ShardMonitor shards;
  JobTable jobs;
  uint64_t poll_round = 0;
  uint64_t calls = 0;  // to shards, in this term
  std::vector<std::string> log;
};

}  // namespace monsoon
