// The JobService of proto/coordinator.proto over a Coordinator: a line per RPC.
#pragma once

#include "common/transport/frame/fault.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/server/coordinator.h"

namespace monsoon {

// The first two outlive the table.
void AddJobCalls(Coordinator* coordinator, FaultInjector* faults, CallTable* calls);

}  // namespace monsoon
