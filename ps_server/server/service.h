// The control RPCs of a Shard (the service ParameterServer of proto/parameter_server.proto). The
// data plane is FrameListener (common/transport/frame_listener.h).
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/latest_text.h"
#include "common/security/caller.h"
#include "common/transport/frame/frame_server.h"
#include "common/transport/grpc/call_table.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/heard_journal.h"
#include "ps_server/checkpoint/kept_revocations.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

class ParameterServerService {
 public:
  // What it serves from; all of them outlive it.
  struct Parts {
    Shard* shard = nullptr;
    CheckpointKeeper* keeper = nullptr;  // null: in memory only
    HeardJournal* journal = nullptr;
    KeptRevocations* revoked = nullptr;
    FrameServer* frames = nullptr;
    uint64_t message_memory_bytes = 0;
    // What status replies offer; one without a socket: nothing.
    std::function<SharedMemoryOffer()> shared_memory;
    const LatestText* trouble = nullptr;  // what they say of themselves
  };
  explicit ParameterServerService(Parts parts) : parts_(std::move(parts)) {}

  // What the server serves. This outlives the table.
  CallTable Calls();

 private:
  // Adds a call that a drain waits for.
  template <typename Request, typename Serve>
  void Add(const char* method, Serve serve, CallTable* calls);

  absl::StatusOr<ShardStatusReply> GetStatus(const Caller& caller,
                                             const ShardStatusRequest& request) const;
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request);
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request);
  absl::Status DeleteJob(const DeleteShardJobRequest& request);
  absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request);
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request);
  // The keeper; FailedPrecondition for a server in memory only.
  absl::StatusOr<CheckpointKeeper*> Keeper() const;

  const Parts parts_;
};

}  // namespace monsoon
