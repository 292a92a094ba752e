// TableSlice: one shard's runs of the rows of a job's tables, as stripes, and of each session
// which of its pushes' rows are in.
//
// Rows come with the session's pushes: push n is whole once all its frames of rows were applied,
// in order, and none of push n + 1 is taken before. A frame is checked whole before any of it is
// applied. Each stripe remembers the last push that has touched it (row_stripe.h), so that after
// a restart, when stripes hold pushes beyond the last one that all of them hold, what is sent
// again counts once.
//
// Thread safe. Lock order: sessions_mutex_, or one session's lock, and then a stripe's.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/row_stripe.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/validation.h"

namespace monsoon {

class TableSlice {
 public:
  // Of an open session, at most.
  uint64_t SessionBytes() const;

  // `facts` outlives this; its request had the tables, whose memory (TableBytes) was taken.
  TableSlice(const JobFacts* facts, uint64_t seed, std::vector<TableInfo> tables);

  // The data plane. An error: the frame was malformed, and changed nothing.
  absl::StatusOr<RowPushReply> Push(const RowPushRequest& request, ChunkCursor* payload,
                                    AlignedFloats* scratch, bool draining);
  // The rows that a request asks for, in its order. FailedPrecondition when the session is not
  // open.
  struct Rows {
    std::shared_ptr<AlignedFloats> values;
    uint64_t applied_push = 0;
  };
  absl::StatusOr<Rows> Fetch(const RowFetchRequest& request, ChunkCursor* payload) const;

  // Before the first session: replaces rows and sums. InvalidArgument says what is wrong.
  absl::Status Write(const RowWriteRequest& request, ChunkCursor* payload, AlignedFloats* scratch);

  // `mark` gets the last push that is whole, unless that has more; null: nothing does.
  void Open(SessionId session, std::atomic<uint64_t>* mark);
  // Afterwards nothing of the session is applied. The last push that was whole. `keep`: it is
  // remembered, and in cuts, until Forget.
  uint64_t Close(SessionId session, bool keep);
  // As if it had closed one of which it has seen `last`.
  void KeepClosed(SessionId session, uint64_t last);
  void Forget(SessionId session);
  // An earlier life had more of an open session.
  bool IsBehind(SessionId session) const;
  // Of an open one; zeros for others.
  StripeMarks Marks(SessionId session) const;

  // ---- checkpoints ----

  // Before the first stripe is cut: what all of them will hold at least.
  void CutSessions(ShardCheckpoint* cut) const;
  // After that: the stripes of each table that were touched, and how many floats they have.
  struct Touched {
    std::vector<std::vector<uint32_t>> stripes;  // [table], rising
    std::vector<uint64_t> floats;                // [table]
  };
  Touched FindTouched() const;
  uint64_t TouchedFloats() const;
  // Cuts those in order, and gives each to `take`, with its floats.
  absl::Status CutStripes(
      const Touched& touched,
      absl::FunctionRef<absl::Status(RowStripeRecord, std::span<const float>)> take) const;
  // A newer generation, which holds those sessions, is on the disk.
  void NoteWritten(const ShardCheckpoint& content);
  // Where the floats of a stripe of a part go, which the part's reader has found to be one of
  // this slice.
  std::span<float> RestoredFloats(const RowStripeRecord& stripe);
  // After all floats are in place, and `open` sessions (rising) were opened.
  void Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
               std::span<const SessionId> open);
  void Clear();

  void AddTo(ShardJobStatus* status) const;
  uint64_t rows_applied() const { return rows_applied_.load(); }
  const std::vector<TableInfo>& tables() const { return tables_; }

 private:
  struct Session {
    Mutex mutex;
    bool open ABSL_GUARDED_BY(mutex) = true;
    uint64_t last ABSL_GUARDED_BY(mutex) = 0;     // push that is whole
    uint32_t frames ABSL_GUARDED_BY(mutex) = 0;   // of the next one
    uint64_t written ABSL_GUARDED_BY(mutex) = 0;  // as in StripeMarks
    uint64_t durable ABSL_GUARDED_BY(mutex) = 0;
    std::atomic<uint64_t>* mark ABSL_GUARDED_BY(mutex) = nullptr;
  };
  struct OwnTable {
    TableMap map;
    uint32_t rows = 0;  // of the run
    std::vector<std::unique_ptr<RowStripe>> stripes;
  };
  // Rows of one table in a frame, where they lie.
  struct Part {
    const OwnTable* table = nullptr;
    std::span<const uint32_t> rows;
    const float* values = nullptr;
  };

  std::shared_ptr<Session> Find(SessionId session) const;
  // Why the request cannot be of this job; OK: it can.
  absl::Status CheckTables(const google::protobuf::RepeatedPtrField<TableRows>& tables,
                           bool with_values, uint64_t payload) const;
  // Checks what lies at `at`, whose length was checked. `seen`: of tables.
  absl::StatusOr<std::vector<Part>> CheckContent(const RowPushRequest& request,
                                                 const std::byte* at) const;
  // Calls `visit(stripe, rows of it, base, index of the first)` for each run of rows of one
  // stripe.
  template <typename Visit>
  static void ByStripe(const OwnTable& table, std::span<const uint32_t> rows, Visit visit);

  const JobFacts& facts_;
  const std::vector<TableInfo> tables_;
  std::vector<OwnTable> own_;

  mutable Mutex sessions_mutex_;
  // Shared: a push may still hold one that is closed.
  std::map<SessionId, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(sessions_mutex_);

  std::atomic<uint64_t> rows_applied_{0};
  mutable std::atomic<uint64_t> rows_fetched_{0};
};

}  // namespace monsoon
