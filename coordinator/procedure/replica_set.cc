#include "coordinator/procedure/replica_set.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

void ReplicaSet::Add(uint32_t worker) {
  CHECK(live_.insert(worker).second);
  replica_[worker].reset();
}

bool ReplicaSet::Remove(uint32_t worker) {
  replica_.erase(worker);
  return live_.erase(worker) > 0;
}

absl::StatusOr<std::optional<NextWorkReply>> ReplicaSet::KnownReply(uint32_t worker,
                                                                    uint64_t number) const {
  const auto found = replica_.find(worker);
  if (found == replica_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(WorkerName(worker), " has no open session in this job"));
  }
  const std::optional<NextWorkReply>& last = found->second;
  if (!last || number == last->request() + 1) {
    return std::nullopt;
  }
  if (number == last->request()) {
    return last;
  }
  return absl::FailedPreconditionError(absl::StrCat("NextWork request ", number, " of ",
                                                    WorkerName(worker), " does not follow ",
                                                    last->request()));
}

void ReplicaSet::Replied(uint32_t worker, const NextWorkReply& reply) {
  CHECK(contains(worker));
  replica_[worker] = reply;
}

const NextWorkReply* ReplicaSet::last_reply(uint32_t worker) const {
  const auto found = replica_.find(worker);
  return found != replica_.end() && found->second ? &*found->second : nullptr;
}

bool ReplicaSet::left(uint32_t worker) const {
  const NextWorkReply* const reply = last_reply(worker);
  return reply != nullptr && reply->has_finish();
}

bool ReplicaSet::Gone(absl::Duration now) const {
  return std::all_of(live_.begin(), live_.end(), [this](uint32_t w) { return left(w); }) ||
         (leaving_since_ && now - *leaving_since_ >= kLeaveTimeout);
}

std::string WorkerName(uint32_t worker) { return absl::StrCat("worker/", worker); }

}  // namespace monsoon
