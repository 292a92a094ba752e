// ShardFrameHandler: what a shard does with the frames of the data plane: pushes,
// contributions, writes, marks and fetches, of rows of tables too (proto/tensor.proto). Whoever
// speaks for a session is held against whose it is first (session_guard.h).
//
// Thread safe.
#pragma once

#include <memory>

#include "common/transport/frame/frame_handler.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

class ShardFrameHandler final : public FrameHandler {
 public:
  // `shard` outlives this and its answers.
  explicit ShardFrameHandler(Shard* shard) : shard_(shard) {}

  void Register(FrameKinds* kinds) override;

  // The parameters of the job that `request` (session, layout hash, read_only)
  // names: the client serves its fetches itself.
  absl::StatusOr<SharedMapping> Share(const FetchRequest& request,
                                      std::shared_ptr<const ReadCounts> counts) override;

 private:
  absl::StatusOr<ServedFrame> Push(const PushRequest& push, ChunkCursor* payload,
                                   FrameScratch* scratch);
  absl::StatusOr<ServedFrame> Fetch(FetchRequest* fetch);
  absl::StatusOr<ServedFrame> Write(const WriteRequest& write, ChunkCursor* payload,
                                    FrameScratch* scratch);
  bool IsOpen(const SessionKey& session) const;
  absl::StatusOr<ServedFrame> FetchRows(const RowFetchRequest& fetch, ChunkCursor* payload);
  // For a push with then_fetch: adds the parameters to its answer and returns
  // their bytes; nothing where a record was refused or they fit no frame.
  FramePayload AddFetch(const PushRequest& push, PushReply* reply);

  Shard* const shard_;
};

}  // namespace monsoon
