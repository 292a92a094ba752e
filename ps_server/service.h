// ParameterServerService: puts a Shard on gRPC. Control RPCs are the generated
// ones; Data is a bidirectional stream of raw frames (proto/tensor.proto). One
// thread per stream answers its frames in order; StreamBudget bounds their
// number.
//
// Thread safe. gRPC's types stay in service.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "common/rpc/fault.h"
#include "ps_server/in_flight.h"
#include "ps_server/shard/shard.h"

namespace grpc {
class Service;
}

namespace monsoon {

class ParameterServerService {
 public:
  // `shard` outlives the service.
  static std::unique_ptr<ParameterServerService> Create(Shard* shard, uint64_t message_memory_bytes,
                                                        FaultOptions fault);
  virtual ~ParameterServerService() = default;

  // What the server registers; lives as long as this.
  virtual grpc::Service* service() = 0;

  // Counts what is being answered right now.
  virtual InFlight* in_flight() = 0;
};

}  // namespace monsoon
