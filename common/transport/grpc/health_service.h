// The health of a server as any client of gRPC can ask for it.
#pragma once

#include "common/transport/grpc/call_table.h"

namespace monsoon {

// Adds /grpc.health.v1.Health/Check, which answers SERVING.
void AddHealthCalls(CallTable* calls);

}  // namespace monsoon
