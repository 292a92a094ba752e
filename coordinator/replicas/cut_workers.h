// CutWorkers: workers that do not get through to a shard which others reach. Such a worker holds
// blocks that it cannot finish, and rounds wait for it, though it is there for the coordinator. It
// loses its session, as if it were lost, and is let in again after a while.
//
// Not a controller: Replicas asks it. Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/registry.h"
#include "coordinator/shards/shard_command.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// "has not reached ps/0 at ADDRESS for 12 s".
std::string NotReached(const CutWorker& cut, const Cluster& cluster, absl::Duration now);

class CutWorkers {
 public:
  explicit CutWorkers(Registry* registry) : registry_(registry) {}

  // What the worker says of its session. A shard that is away for everybody, or has not got the
  // job's slice back, says nothing of the worker.
  void Hear(uint32_t worker, const HeartbeatRequest& request, absl::Duration now);
  // Those that have been cut off for lost_after, while another worker of the job is not, and why:
  // their sessions are to be closed. Each is kept out of the job for a while.
  std::vector<std::pair<uint32_t, std::string>> TakeLost(absl::Duration now);
  // "waits for worker/1, which has not reached ps/0 at ADDRESS for 12 s"; "": for none.
  std::string WaitsFor(const JobRecord& job, absl::Duration now) const;

  // What a shard that has closed a session says; once all have, an event tells where some shards
  // have pushes of it that others never got.
  void NoteClosed(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer);
  // How many pushes of a session that is closed the shard has that has most; nothing: not known.
  std::optional<uint64_t> PushesOf(const JobRecord& job, const DurableSession& session) const;
  void EndSession(JobRecord* job, const DurableSession& session, absl::Duration now);

 private:
  // The shard answers the coordinator, and has the job's slice.
  bool IsThere(const JobRecord& job, uint32_t shard) const;
  // Whether another worker of the job is there that has not lost touch with the shard.
  bool OthersReach(const JobRecord& job, uint32_t shard) const;

  Registry* const registry_;
};

}  // namespace monsoon
