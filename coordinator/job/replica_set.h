// ReplicaSet: the replicas of one job as its procedure sees them: who has an
// open session, what each was told last, and who was told to finish.
//
// NextWork is a remote call that may be repeated: each replica numbers its
// requests, and the last answer is kept until the next request arrives. Only an
// answer to wait is not given again: it promised nothing, and there may be work now.
//
// A pure state machine over the job's durable state: `now` (since any origin) never
// goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// How long replicas that were told to finish may take to ask once more.
inline constexpr absl::Duration kLeaveTimeout = absl::Seconds(3);

class ReplicaSet {
 public:
  explicit ReplicaSet(ProcedureWriter writer);

  // `worker` is no member yet.
  void Add(uint32_t worker);
  // False for one that is no member.
  bool Remove(uint32_t worker);
  bool contains(uint32_t worker) const { return live_.contains(worker); }
  const std::set<uint32_t>& live() const { return live_; }

  // The answer that request `number` of `worker` got already; nothing for the next request.
  // Numbers may be missing before the next one: an earlier life of the coordinator may have
  // forgotten answers that promised nothing.
  // FAILED_PRECONDITION for a worker that is no member, or a number below the last one.
  absl::StatusOr<std::optional<NextWorkReply>> KnownReply(uint32_t worker, uint64_t number) const;
  // `reply`, whose number is set, is what `worker`, a member, is told now.
  void Replied(uint32_t worker, const NextWorkReply& reply);
  // What `worker` was told last; nullptr for nothing yet, or no member.
  const NextWorkReply* last_reply(uint32_t worker) const;

  // From now on replicas are told to finish, by a reply with `finish`.
  void BeginLeaving(absl::Duration now);
  bool left(uint32_t worker) const;
  // All were told, or kLeaveTimeout is over.
  bool Gone(absl::Duration now) const;

 private:
  const ProcedureWriter writer_;
  std::set<uint32_t> live_;  // the workers of the durable list, for those who ask for all
};

// "worker/N".
std::string WorkerName(uint32_t worker);

}  // namespace monsoon
