// ParameterServerService: the control RPCs of a Shard on gRPC. The data plane is
// FrameListener (common/transport/frame_listener.h).
//
// Thread safe. gRPC's types stay in service.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "common/transport/frame/frame_server.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/shard/shard.h"

namespace grpc {
class Service;
}

namespace monsoon {

class ParameterServerService {
 public:
  // `shard`, `keeper` and `frames` outlive the service. `keeper` is null for a server
  // in memory only. `shared_memory` is what status replies offer; a default one:
  // nothing.
  static std::unique_ptr<ParameterServerService> Create(Shard* shard, CheckpointKeeper* keeper,
                                                        FrameServer* frames,
                                                        uint64_t message_memory_bytes,
                                                        const SharedMemoryOffer& shared_memory);
  virtual ~ParameterServerService() = default;

  // What the server registers; lives as long as this.
  virtual grpc::Service* service() = 0;
};

}  // namespace monsoon
