// The JobService of proto/coordinator.proto over a Coordinator: a line per RPC.
#pragma once

#include <string>

#include "common/transport/frame/fault.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/server/coordinator.h"

namespace monsoon {

// `open_at`: ListReply.open_at. Coordinator and faults outlive the table.
void AddJobCalls(Coordinator* coordinator, const std::string& open_at, FaultInjector* faults,
                 CallTable* calls);

}  // namespace monsoon
