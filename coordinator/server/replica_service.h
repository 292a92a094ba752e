// The ReplicaService of proto/coordinator.proto over a Coordinator: a line per
// RPC.
#pragma once

#include <memory>

#include "common/transport/frame/fault.h"
#include "coordinator/server/coordinator.h"
#include "grpcpp/impl/service_type.h"

namespace monsoon {

// Both must outlive the service.
std::unique_ptr<grpc::Service> MakeReplicaService(Coordinator* coordinator, FaultInjector* fault);

}  // namespace monsoon
