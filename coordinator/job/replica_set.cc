#include "coordinator/job/replica_set.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon {

ReplicaSet::ReplicaSet(ProcedureWriter writer) : writer_(std::move(writer)) {
  for (const DurableReplica& replica : writer_.state().replica()) {
    live_.insert(replica.worker());
  }
}

void ReplicaSet::Add(uint32_t worker) {
  CHECK(live_.insert(worker).second);
  writer_.Make([&](StateUpdate* update) { update->mutable_replica_added()->set_worker(worker); });
}

bool ReplicaSet::Remove(uint32_t worker) {
  if (live_.erase(worker) == 0) {
    return false;
  }
  writer_.Make([&](StateUpdate* update) { update->mutable_replica_removed()->set_worker(worker); });
  return true;
}

absl::StatusOr<std::optional<NextWorkReply>> ReplicaSet::KnownReply(uint32_t worker,
                                                                    uint64_t number) const {
  if (!contains(worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat(WorkerName(worker), " has no open session in this job"));
  }
  const NextWorkReply* const last = last_reply(worker);
  if (last == nullptr || number > last->request()) {
    return std::nullopt;
  }
  if (number == last->request()) {
    // To wait, too: the replica may have heard that, and not what it would be told now.
    return *last;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "NextWork request ", number, " of ", WorkerName(worker), " came after ", last->request()));
}

void ReplicaSet::Replied(uint32_t worker, const NextWorkReply& reply) {
  writer_.Make([&](StateUpdate* update) {
    update->mutable_replica_told()->set_worker(worker);
    *update->mutable_replica_told()->mutable_last_reply() = reply;
  });
}

const NextWorkReply* ReplicaSet::last_reply(uint32_t worker) const {
  const DurableReplica* const replica = FindWorker(writer_.state().replica(), worker);
  return replica != nullptr && replica->has_last_reply() ? &replica->last_reply() : nullptr;
}

void ReplicaSet::BeginLeaving(absl::Duration now) {
  writer_.Make([&](StateUpdate* update) {
    update->mutable_phase_changed()->set_phase(writer_.state().phase());
    update->mutable_phase_changed()->set_leaving_ns(ToNanos(now));
  });
}

bool ReplicaSet::left(uint32_t worker) const {
  const NextWorkReply* const reply = last_reply(worker);
  return reply != nullptr && reply->has_finish();
}

bool ReplicaSet::Gone(absl::Duration now) const {
  return std::all_of(live_.begin(), live_.end(), [this](uint32_t w) { return left(w); }) ||
         (writer_.state().has_leaving_ns() &&
          now - FromNanos(writer_.state().leaving_ns()) >= kLeaveTimeout);
}

std::string WorkerName(uint32_t worker) { return absl::StrCat("worker/", worker); }

}  // namespace monsoon
