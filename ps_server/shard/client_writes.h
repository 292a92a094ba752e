// ClientWrites: what clients write of a slice before its job's first session, and whether it may
// be read meanwhile; and what sessions write of one that only stores, which goes to its spare room.
//
// Thread safe. Writes hold the sessions' lock, so that none begins after a session was opened, and
// none of a session goes on after that is closed; lock order: that, then the spare room's, or one
// stripe at a time. CheckReadable takes no lock where the slice is readable.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/slice_sessions.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/slice_writing.h"
#include "ps_server/shard/spare_room.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/shard/validation.h"

namespace monsoon {

class ClientWrites {
 public:
  // Pointers outlive this. `tables`: null without any. `spare`: null unless the slice only stores.
  ClientWrites(const CreateShardJobRequest& request, const JobFacts* facts, SliceStripes* stripes,
               TableSlice* tables, SliceSessions* sessions, SpareRoom* spare);

  // FailedPrecondition for a slice of a model that only its clients know until one of them
  // has written and sealed it, and while a later one writes it.
  absl::Status CheckReadable() const;

  // Replaces whole stripes, or their optimizer state, all of them or none; or ends that by
  // a seal. FailedPrecondition once the job has had a session, and where SliceWriting or
  // the seal's checksum refuses it. Of a session: FailedPrecondition where it is not open, else as
  // SpareRoom says.
  absl::StatusOr<WriteReply> Write(const WriteRequest& request, ChunkCursor* payload,
                                   AlignedFloats* scratch);
  // The same of rows of tables.
  absl::StatusOr<WriteReply> WriteRows(const RowWriteRequest& request, ChunkCursor* payload,
                                       AlignedFloats* scratch);

  // The slice has its content from a checkpoint.
  void NoteRestored();

 private:
  // Before anything is written: CheckWritable, and SliceWriting's word. False: nothing is to be.
  absl::StatusOr<bool> BeginWrite(uint64_t writer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_->mutex());
  absl::Status CheckWritable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_->mutex());
  absl::Status Seal(uint64_t writer, uint64_t checksum);
  // What a session has written, or its seal, to the spare room.
  absl::Status ToSpare(const WriteRequest& request, std::span<const float> content);

  const JobFacts& facts_;
  SliceStripes* const stripes_;
  TableSlice* const tables_;
  SliceSessions* const sessions_;
  SpareRoom* const spare_;
  SliceWriting writing_ ABSL_GUARDED_BY(sessions_->mutex());
  std::atomic<bool> readable_;  // as writing_ says
};

}  // namespace monsoon
