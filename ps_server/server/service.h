// The control RPCs of a Shard (the service ParameterServer of proto/parameter_server.proto). The
// data plane is FrameListener (common/transport/frame_listener.h).
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/latest_text.h"
#include "common/transport/frame/frame_server.h"
#include "common/transport/grpc/call_table.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/heard_journal.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

class ParameterServerService {
 public:
  // `shard`, `keeper`, `journal` and `frames` outlive the service. `keeper` is null for a server
  // in memory only. `shared_memory` says what status replies offer; one without a
  // socket: nothing. `trouble`, which outlives it too, is what they say of themselves.
  ParameterServerService(Shard* shard, CheckpointKeeper* keeper, HeardJournal* journal,
                         FrameServer* frames, uint64_t message_memory_bytes,
                         std::function<SharedMemoryOffer()> shared_memory,
                         const LatestText* trouble)
      : shard_(shard),
        keeper_(keeper),
        journal_(journal),
        frames_(frames),
        message_memory_bytes_(message_memory_bytes),
        shared_memory_(std::move(shared_memory)),
        trouble_(trouble) {}

  // What the server serves. This outlives the table.
  CallTable Calls();

 private:
  // Adds a call that a drain waits for.
  template <typename Request, typename Serve>
  void Add(const char* method, Serve serve, CallTable* calls);

  absl::StatusOr<ShardStatusReply> GetStatus(const ShardStatusRequest& request) const;
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request);
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request);
  absl::Status DeleteJob(const DeleteShardJobRequest& request);
  absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request);
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request);
  // The keeper; FailedPrecondition for a server in memory only.
  absl::StatusOr<CheckpointKeeper*> Keeper() const;

  Shard* const shard_;
  CheckpointKeeper* const keeper_;  // null: in memory only
  HeardJournal* const journal_;
  FrameServer* const frames_;
  const uint64_t message_memory_bytes_;
  const std::function<SharedMemoryOffer()> shared_memory_;
  const LatestText* const trouble_;
};

}  // namespace monsoon
