// Taking a stream of a job for a session: nobody else reads it until the session is closed.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/client/replica_client.h"
#include "proto/checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "worker/session/session_control.h"

namespace monsoon {

// How far the stream was read; without `worker` and `state` where nobody has. While the session of
// another worker has it, asks again, until that may be taken to be alive: INVALID_ARGUMENT names
// it. Asks again while the coordinator cannot be reached, too. CANCELLED: the session is to end;
// FAILED_PRECONDITION: it is over. Blocks; any thread.
absl::StatusOr<StreamPosition> TakeStream(ReplicaClient* client, const SessionKey& session,
                                          const std::string& stream, SessionControl* control);

}  // namespace monsoon
