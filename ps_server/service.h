// ParameterServerService: puts a Shard on gRPC. Control RPCs are the generated
// ones; Data is a bidirectional stream of raw frames (proto/tensor.proto), which
// FrameServer answers on one thread per stream.
//
// Thread safe. gRPC's types stay in service.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/parameter_server.pb.h"
#include "ps_server/frame_server.h"
#include "ps_server/shard/shard.h"

namespace grpc {
class Service;
}

namespace monsoon {

class ParameterServerService {
 public:
  // `shard` and `frames` outlive the service. `shared_memory` is what status
  // replies offer; a default one: nothing.
  static std::unique_ptr<ParameterServerService> Create(Shard* shard, FrameServer* frames,
                                                        uint64_t message_memory_bytes,
                                                        const SharedMemoryOffer& shared_memory);
  virtual ~ParameterServerService() = default;

  // What the server registers; lives as long as this.
  virtual grpc::Service* service() = 0;
};

}  // namespace monsoon
