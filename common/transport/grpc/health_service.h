// HealthService: grpc.health.v1.Health/Check, so that load balancers and probes
// find a server that serves. gRPC's own one brings threads that poll for all
// connections of the process and hand each event over to somebody else.
#pragma once

#include "grpcpp/impl/service_type.h"

namespace monsoon {

// Says SERVING for the whole server (the empty name), NOT_FOUND for any other.
class HealthService : public grpc::Service {
 public:
  HealthService();
};

}  // namespace monsoon
