// SessionOwners: whose the open sessions of a job are: the member whose worker it is, as the
// coordinator has said when it opened the session. Each frame that names a session is held against
// it, but for callers who prove nothing since the server trusts them all (Caller.open).
//
// Thread safe; calls wait for each other's lookups alone, never for a stripe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/security/caller.h"
#include "common/security/member_id.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

// Nothing: it is nobody's, and any member's that may send such frames.
using SessionOwner = std::optional<MemberId>;

// What one takes, with the allocator's own bytes.
inline constexpr uint64_t kSessionOwnerBytes = 512;

class SessionOwners {
 public:
  // `job`: for messages.
  explicit SessionOwners(std::string job) : job_(std::move(job)) {}

  // The session is open.
  void Set(SessionId session, SessionOwner owner);
  // It is closed.
  void Forget(SessionId session);

  // FailedPrecondition names both where it is open as another's.
  absl::Status CheckIs(SessionId session, const SessionOwner& owner) const;
  // Nothing for a session that is not open. PermissionDenied names the session, whose it is and who
  // asks. Allocates nothing where that is the same.
  std::optional<absl::Status> Check(SessionId session, const Caller& caller) const;

 private:
  std::string NameOf(SessionId session) const;

  const std::string job_;
  mutable Mutex mutex_;
  std::map<SessionId, SessionOwner> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
