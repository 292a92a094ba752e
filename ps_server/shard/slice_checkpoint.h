// SliceCheckpoint: what a generation holds of a slice, and how a slice is made again from that.
//
// A cut is taken stripe by stripe while pushes go on; each stripe is as of one moment, and its
// windows say which pushes it has. Cuts are thread safe; what restores comes before anybody else
// has the job.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/client_writes.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/slice_figures.h"
#include "ps_server/shard/slice_sessions.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {

class SliceCheckpoint {
 public:
  // The parts of one slice, which outlive this. `tables`: null without any.
  struct Parts {
    SliceStripes* stripes = nullptr;
    TableSlice* tables = nullptr;
    VectorStore* vectors = nullptr;
    SliceSessions* sessions = nullptr;
    ClientWrites* writes = nullptr;
    SliceFigures* figures = nullptr;
  };
  SliceCheckpoint(const CreateShardJobRequest* request, const JobFacts* facts, const Parts& parts)
      : request_(*request),
        facts_(*facts),
        stripes_(parts.stripes),
        tables_(parts.tables),
        vectors_(parts.vectors),
        sessions_(parts.sessions),
        writes_(parts.writes),
        figures_(parts.figures) {}

  // What a checkpoint holds beside stripes and what was ordered. Asked for after the
  // last CutStripe: then a session that was closed meanwhile counts as closed.
  ShardCheckpoint Cut() const;
  // The stripe as of one moment: its floats to `parameters` (its size), its optimizer
  // state to `state` (state_slots() times that), and what else it holds, but for what
  // sums of gradients need (VectorStore::Maxima).
  StripeRecord CutStripe(uint32_t stripe, std::span<float> parameters,
                         std::span<float> state) const;
  // The generation's part, of these cuts of all stripes in order, is on the disk and read back.
  void NoteWritten(uint64_t generation, std::span<const StripeRecord> cuts);
  // The newest that is written; 0: none. Thread safe.
  uint64_t written() const { return written_; }

  // Makes the slice, its tables too, what it was after it was made, whatever was written to its
  // floats since.
  void Clear();
  // Where a part's floats go, before Restore: the slice's float `at` and those behind it
  // to the end of the stripe, and a slot of their optimizer state.
  std::span<float> RestoredParameters(uint64_t at);
  std::span<float> RestoredState(size_t slot, uint64_t at);
  // Makes it what a part holds, whose floats are in place, vectors included
  // (VectorStore::RestoreVector). `older` is the part before it
  // that is kept too; null: none is. Sessions become as SliceSessions::Restore says. Not to be
  // used after an error. DataLoss for a content of another shape, ResourceExhausted without room
  // for the sessions or for what sums need.
  absl::Status Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
                       std::span<const SessionId> open);

  // What it was restored from; zeros: it began anew. Constant once others have the job.
  struct Parent {
    uint64_t shard_epoch = 0;
    uint64_t generation = 0;
  };
  const Parent& parent() const { return parent_; }

 private:
  absl::Status CheckRestorable(const ShardCheckpoint& content) const;

  const CreateShardJobRequest& request_;
  const JobFacts& facts_;
  SliceStripes* const stripes_;
  TableSlice* const tables_;
  VectorStore* const vectors_;
  SliceSessions* const sessions_;
  ClientWrites* const writes_;
  SliceFigures* const figures_;
  Parent parent_;
  std::atomic<uint64_t> written_{0};
};

}  // namespace monsoon
