#include "ps_server/shard/session_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

std::string NotOpen(SessionId session) {
  return absl::StrCat("the session of worker/", session.worker, "#", session.incarnation,
                      " is not open");
}

absl::StatusOr<SessionTable::Opening> SessionTable::PlanOpen(SessionId session) const {
  if (closed_.contains(session)) {
    return absl::FailedPreconditionError(absl::StrCat("the session of worker/", session.worker, "#",
                                                      session.incarnation, " was closed"));
  }
  // The newest incarnation known, open or closed.
  Opening opening;
  uint64_t newest = 0;
  const auto newer = closed_.upper_bound(SessionId{session.worker, UINT64_MAX});
  if (newer != closed_.begin() && std::prev(newer)->first.worker == session.worker) {
    newest = std::prev(newer)->first.incarnation;
  }
  if (const auto open = open_.find(session.worker); open != open_.end()) {
    if (open->second == session.incarnation) {
      opening.already_open = true;
      return opening;
    }
    newest = std::max(newest, open->second);
    opening.overtaken = SessionId{session.worker, open->second};
  }
  if (newest > session.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("worker/", session.worker, "#",
                                                      session.incarnation,
                                                      " is older than incarnation ", newest));
  }
  return opening;
}

void SessionTable::RecordOpen(SessionId session) {
  CHECK(!open_.contains(session.worker));
  open_[session.worker] = session.incarnation;
  had_session_ = true;
}

bool SessionTable::IsOpen(SessionId session) const {
  const auto open = open_.find(session.worker);
  return open != open_.end() && open->second == session.incarnation;
}

void SessionTable::RecordClose(SessionId session, uint64_t applied) {
  if (IsOpen(session)) {
    open_.erase(session.worker);
  }
  closed_.emplace(session, applied);
}

std::optional<uint64_t> SessionTable::ClosedApplied(SessionId session) const {
  const auto closed = closed_.find(session);
  return closed == closed_.end() ? std::nullopt : std::make_optional(closed->second);
}

}  // namespace monsoon
