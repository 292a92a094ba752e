#include "ps_server/shard/session_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

std::string NotOpen(SessionId session) {
  return session.incarnation == kNoIncarnation
             ? absl::StrCat("this session of worker/", session.worker, " is not open")
             : absl::StrCat("the session of worker/", session.worker, "#", session.incarnation,
                            " is not open");
}

absl::StatusOr<SessionTable::Opening> SessionTable::PlanOpen(SessionId session) const {
  if (session.incarnation == kNoIncarnation) {
    return absl::InvalidArgumentError(
        absl::StrCat("a session of worker/", session.worker, " has no incarnation"));
  }
  // The newest incarnation known, open or closed.
  Opening opening;
  uint64_t newest = 0;
  if (const auto closed = closed_.find(session.worker); closed != closed_.end()) {
    newest = closed->second.incarnation;
    if (newest == session.incarnation) {
      return absl::FailedPreconditionError(absl::StrCat("the session of worker/", session.worker,
                                                        "#", session.incarnation, " was closed"));
    }
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
  const auto [closed, is_new] = closed_.try_emplace(session.worker);
  if (is_new || session.incarnation > closed->second.incarnation) {
    closed->second = {session.incarnation, applied};
  }
}

std::optional<uint64_t> SessionTable::ClosedApplied(SessionId session) const {
  const auto closed = closed_.find(session.worker);
  if (closed == closed_.end() || closed->second.incarnation < session.incarnation) {
    return std::nullopt;
  }
  return closed->second.incarnation == session.incarnation ? closed->second.applied : 0;
}

}  // namespace monsoon
