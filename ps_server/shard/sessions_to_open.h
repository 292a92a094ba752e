// Which sessions a slice that is restored has open.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/shard/session_owners.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

// Sessions that one request to restore a job may name: more than a job has workers.
inline constexpr int kMaxRestoredSessions = 1 << 14;

// Of each worker that the request names the newest session, by worker. InvalidArgument for too
// many, or for one of another job.
absl::StatusOr<std::vector<SessionId>> SessionsToOpen(const RestoreShardJobRequest& request);

// Whose each session of the request is. InvalidArgument where it says that of others than its
// sessions, or of a member that none is.
absl::StatusOr<std::map<SessionId, SessionOwner>> OwnersToBind(
    const RestoreShardJobRequest& request);

}  // namespace monsoon
