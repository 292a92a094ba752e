// A ReplicaClient that delays each call and loses some, for --fault.
//
// Thread safety: as ReplicaClient.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/transport/frame/fault.h"
#include "coordinator/client/replica_client.h"

namespace monsoon {

// A lost call answers UNAVAILABLE, before or after it was served.
std::unique_ptr<ReplicaClient> MakeFaultyReplicaClient(std::unique_ptr<ReplicaClient> client,
                                                       const FaultOptions& options);

}  // namespace monsoon
