// The MemberService of proto/member.proto over a Coordinator: a line per RPC. Who may call which is
// decided before.
#pragma once

#include "common/transport/frame/fault.h"
#include "common/transport/grpc/call_table.h"
#include "coordinator/server/coordinator.h"

namespace monsoon {

// The first two outlive the table.
void AddMemberCalls(Coordinator* coordinator, FaultInjector* faults, CallTable* calls);

}  // namespace monsoon
