// ShardMonitor: which parameter servers answer, from their status polls. A
// shard is up from its first answer, suspect after `suspect_after` without one, lost
// after `lost_after`, and restarted when it answers with another epoch. A suspect
// shard may still serve, and goes on as the same life when it answers; of one whose
// host says that nobody listens there, the life is over: it is lost at once.
//
// A pure state machine: `now` (since any origin) never goes back. Not thread
// safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

struct ShardView {
  enum class State { kNeverSeen, kUp, kSuspect, kLost };
  State state = State::kNeverSeen;
  // The last answer; default before the first.
  ShardStatusReply status;
  absl::Duration last_seen;
  int64_t last_seen_ms = 0;  // Unix time, for people
  uint64_t round = 0;        // the poll round of the last answer
  bool expected = false;     // it has not answered since Expect
  // Why the last poll failed; OK when it did not.
  absl::Status last_error;

  // In this life of the coordinator.
  bool was_heard() const { return last_seen_ms != 0; }
  // Why others may not reach it at its address, as it says; of one that is not there nobody knows.
  std::string trouble() const {
    return state == State::kUp || state == State::kSuspect ? status.trouble() : "";
  }
};

struct ShardChange {
  enum class Kind { kJoined, kSuspect, kLost, kBack, kRestarted };
  Kind kind;
  uint32_t shard = 0;
  uint32_t old_pid = 0;  // kRestarted
  uint32_t pid = 0;
  absl::Duration silent = absl::ZeroDuration();  // since the answer before
};

class ShardMonitor {
 public:
  ShardMonitor(uint32_t shards, absl::Duration suspect_after, absl::Duration lost_after)
      : suspect_after_(suspect_after), lost_after_(lost_after), shards_(shards) {}

  // What an earlier life of the coordinator knew of the shard: it is suspect until it
  // answers, and has restarted if it does so with another epoch.
  void Expect(uint32_t shard, const ShardStatusReply& known, absl::Duration now);
  // The answer of `shard` in poll round `round`; rounds count from 1.
  std::optional<ShardChange> OnPoll(uint32_t shard, uint64_t round,
                                    const absl::StatusOr<ShardStatusReply>& reply,
                                    absl::Duration now, int64_t unix_ms);
  // Shards that are suspect or lost as of now and were not before.
  std::vector<ShardChange> Tick(absl::Duration now);
  // No answer could be heard until now: all have their whole deadlines again.
  void ForgiveSilence(absl::Duration now);

  const ShardView& shard(uint32_t shard) const { return shards_[shard]; }
  uint32_t size() const { return static_cast<uint32_t>(shards_.size()); }
  // All have answered lately.
  bool all_up() const;
  // The round that every shard has answered last; nothing when they differ.
  std::optional<uint64_t> common_round() const;
  // The part of the last answer about one job; null without. `term` is that of its
  // submission.
  const ShardJobStatus* job(uint32_t shard, const std::string& job, uint64_t term) const;
  // By shard, what it said that all jobs may take there; 0: it has said nothing.
  std::vector<uint64_t> MemoryLimits() const;
  // Ids that slices on the shards have.
  std::set<std::string> TakenIds() const;

 private:
  const absl::Duration suspect_after_;
  const absl::Duration lost_after_;
  std::vector<ShardView> shards_;
};

}  // namespace monsoon
