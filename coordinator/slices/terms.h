// Terms: whose the slices on the shards are. A coordinator's term fences those before it; slices
// of jobs that it does not know (orphans) an earlier one has left, and people may delete them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/controller.h"
#include "coordinator/shards/shard_fanout.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class Terms : public Controller {
 public:
  explicit Terms(Registry* registry) : Controller(registry) {}

  // ---- the term ----
  // That of this life. Where the clock is behind the last one it is so far above that as nobody
  // else draws: the lives of a state folder and of an older copy of it would have the same term
  // otherwise, and a worker's incarnation in one would be another's in the other.
  void BeginLife(int64_t unix_ms);
  // One above every earlier one and `above`: the wall clock, in microseconds.
  void TakeTerm(uint64_t above, int64_t unix_ms);
  // A shard has obeyed `seen` last.
  void CheckTerm(uint32_t shard, uint64_t seen, Moment moment);
  // A shard has done what was commanded in this term.
  void NoteObeyed(uint64_t seen) { in_force_ |= seen == term(); }
  // Another coordinator commands the shards: why nothing can be done here; "": none does.
  const std::string& superseded() const { return superseded_; }

  // ---- orphans ----
  std::vector<OrphanJob> Orphans() const;
  // NOT_FOUND unless some shard has such slices.
  absl::StatusOr<JobSummary> DeleteOrphans(const std::string& job);
  // A job whose slices are freed on all shards goes. False: there was none.
  bool RemoveDeleted();
  // Those that a poll of every shard has confirmed.
  void ForgetDeletions();
  // To a command for a job that is not there.
  void OnOrphanDeleted(const ShardCommand& command, const ShardAnswer& answer, absl::Duration now);

  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;

 private:
  // Some shard has taken this term, so its jobs are this coordinator's.
  bool in_force_ = false;
  std::string superseded_;
  // Jobs of this or earlier lives by (id, term), deleted or being so, and the poll round
  // of the end: only a later one tells what is still there.
  struct Deletion {
    ShardFanout fanout;
    uint64_t round = 0;  // 0: under way
  };
  std::map<std::pair<std::string, uint64_t>, Deletion> deletions_;
};

}  // namespace monsoon
