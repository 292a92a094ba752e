// The one place where frames that name a session are held against whose it is.
//
// Plain functions. Thread safe.
#pragma once

#include "absl/status/status.h"
#include "common/security/caller.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

// The session that the request speaks for; null where it speaks for none: it writes initial
// parameters, or only reads.
SessionKey* SessionOf(DataHeader* request);

// PermissionDenied (Shard::CheckOwner) where the session is another's than the caller's. OK: to be
// served. A session that is not open here yet is made one that never is: if it opens meanwhile,
// the frame does not count as its owner's. Open callers (a server without credentials, a Unix
// socket, shared memory) are this user and may speak for all.
absl::Status GuardSession(const Shard& shard, const Caller& caller, DataHeader* request);

}  // namespace monsoon
