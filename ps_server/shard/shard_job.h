// ShardJob: one job's slice on this shard, as stripes with their sessions and
// counters.
//
// What batch jobs add, vectors and sums, is in VectorStore, with locks of its
// own.
//
// Thread safe. Opening and closing sessions and writes exclude each other;
// pushes and fetches take only the locks of the stripes they touch. Lock order:
// sessions_mutex_, then one stripe at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/memory/float_arena.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/read_counts.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/round.h"
#include "ps_server/shard/session_marks.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard_job_plan.h"
#include "ps_server/shard/slice_writing.h"
#include "ps_server/shard/staleness_counts.h"
#include "ps_server/shard/stripe.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {

class ShardJob final : private SliceParameters {
 public:
  // `slice` has the plan's shape and is zero. `memory` is the plan's; `budget`
  // outlives the job. `marks` are its sessions', null: none. `clock`, of rounds, outlives the
  // job. Fill follows.
  ShardJob(const CreateShardJobRequest& request, ShardJobPlan plan, uint64_t shard_epoch,
           SharedSlice slice, MemoryBudget::Reservation memory, MemoryBudget* budget,
           std::unique_ptr<SessionMarks> marks = nullptr, const Clock* clock = Clock::Real());

  // Makes the stripes, of zeros. `layout` is the plan's; `state` has room for the plan's
  // state_bytes, null if these are 0. Initialize or Restore follows, before anything
  // else.
  void Fill(const ParameterLayout& layout, const std::shared_ptr<FloatArena>& state);
  // Gives it its initial parameters, from (seed, global index); zeros stay if the client
  // writes them. Asks before each stripe whether to go on; Cancelled: it did not, and the
  // job is of no use.
  absl::Status Initialize(absl::FunctionRef<bool()> go_on);
  // As after Fill, whatever was written to its floats since.
  void Clear();

  const CreateShardJobRequest& request() const { return request_; }
  uint64_t shard_epoch() const { return facts_.shard_epoch; }
  CreateShardJobReply Describe() const;
  ShardJobStatus GetStatus() const;

  // From now on pushes are applied with that many; a smaller number than before does nothing.
  // FailedPrecondition without a PlateauSchedule.
  absl::Status ReduceRate(uint32_t reductions);

  // The records that it has applied here, where it was open before.
  // ResourceExhausted when the budget has no room for its windows.
  absl::StatusOr<std::optional<uint64_t>> OpenSession(SessionId session);
  // What the session applied here, and what it has not sent again. ResourceExhausted for
  // one that was never open, when there is no room to remember it.
  absl::StatusOr<CloseSessionReply> CloseSession(SessionId session);
  // An earlier life had more of an open session than this one has by now: its worker is
  // about to send that again.
  bool CatchesUp() const;

  // Applies the records of a frame that passed ValidatePushFrame. `scratch`
  // holds one stripe at least, and grows when a record must be decoded.
  // `draining` refuses them all.
  PushReply Push(const PushRequest& request, ChunkCursor* payload, AlignedFloats* scratch,
                 bool draining);

  // Adds the records of a frame that passed ValidateContributeFrame to the sums
  // of an evaluation. A session that is closed meanwhile may still add: a
  // contribution does not depend on who computed it.
  PushReply Contribute(const ContributeRequest& request, ChunkCursor* payload,
                       AlignedFloats* scratch, bool draining);

  // Of the model's tables; null: it has none.
  TableSlice* tables() { return tables_.get(); }
  const TableSlice* tables() const { return tables_.get(); }

  VectorStore* vectors() { return &vectors_; }
  const VectorStore& vectors() const { return vectors_; }
  // How often the batch job has returned to a generation; 0: it never did. Constant once
  // others have the job.
  uint64_t attempt() const { return attempt_; }
  void set_attempt(uint64_t attempt) { attempt_ = attempt; }

  // What a client on this host needs to read the parameters itself, for a fetch
  // that passed ValidateFetch. FailedPrecondition when the session is not open
  // or there is no more room for it, or a client may still write the parameters: the
  // client must ask the shard.
  struct Shared {
    int fd = -1;       // lives as long as the job
    SessionSlot slot;  // ticket 0 without a session
    SharedShape shape;
  };
  absl::StatusOr<Shared> Share(std::optional<SessionId> session);
  // Counts a client's reads from now on, until nobody else holds `counts`.
  void AddReader(std::shared_ptr<const ReadCounts> counts);
  // The job is deleted: clients that read its parameters turn to the shard.
  void Retire() { slice_.Retire(); }
  // The same for a slice that is made anew: nothing more is to be written of this one.
  void GiveUp() {
    given_up_ = true;
    slice_.Retire();
  }
  bool given_up() const { return given_up_; }

  // FailedPrecondition for a slice of a model that only its clients know until one of them
  // has written and sealed it, and while a later one writes it.
  absl::Status CheckReadable() const;
  // Checks a fetch; CopyStripes then serves it piece by piece.
  absl::Status ValidateFetch(const FetchRequest& request) const;
  absl::Status ValidateChanges(const FetchRequest& request) const;
  // Whether the rounds are over that the session has pushed to, of the stripes from `first` on.
  // Unavailable names the sessions that are waited for.
  absl::Status CheckRounds(SessionId session, uint32_t first, uint32_t count);
  // Copies stripes from `first` up to `end`, as many as fit one frame, to the
  // front of `payload`, written in `format`, a fetch format; of `vector` instead
  // of the parameters unless it is null.
  // FailedPrecondition when the session is not open, or as CheckReadable.
  struct Copied {
    std::vector<FetchRecord> records;
    uint64_t bytes = 0;
  };
  absl::StatusOr<Copied> CopyStripes(std::optional<SessionId> session, uint32_t first, uint32_t end,
                                     const SliceVector* vector, WireFormat format,
                                     AlignedFloats* payload);
  // The same of the public copies, for a request of changes.
  absl::StatusOr<Copied> CopyChanges(const FetchRequest& request, uint32_t first, uint32_t end,
                                     AlignedFloats* payload);
  // Bytes of the largest answer frame's payload for such a fetch.
  uint64_t FramePayloadBytes(uint32_t first, uint32_t end) const;

  // Replaces whole stripes, or their optimizer state, all of them or none; or ends that by
  // a seal. FailedPrecondition once the job has had a session, and where SliceWriting or
  // the seal's checksum refuses it.
  absl::StatusOr<WriteReply> Write(const WriteRequest& request, ChunkCursor* payload,
                                   AlignedFloats* scratch);

  // The same of rows of tables.
  absl::StatusOr<WriteReply> WriteRows(const RowWriteRequest& request, ChunkCursor* payload,
                                       AlignedFloats* scratch);

  // What a checkpoint holds beside stripes and what was ordered. Asked for after the
  // last CutStripe: then a session that was closed meanwhile counts as closed.
  ShardCheckpoint CutJob() const;
  // The stripe as of one moment: its floats to `parameters` (its size), its optimizer
  // state to `state` (state_slots() times that), and what else it holds, but for what
  // sums of gradients need (VectorStore::Maxima).
  StripeRecord CutStripe(uint32_t stripe, std::span<float> parameters,
                         std::span<float> state) const;
  // Where a part's floats go, before Restore: the slice's float `at` and those behind it
  // to the end of the stripe, and a slot of their optimizer state.
  std::span<float> RestoredParameters(uint64_t at);
  std::span<float> RestoredState(size_t slot, uint64_t at);
  // Makes it what a part holds, whose floats are in place, vectors included
  // (VectorStore::RestoreVector). `older` is the part before it
  // that is kept too; null: none is. Of the sessions only those of `open`, rising and one
  // a worker, are open after that: others that the part holds are closed, and those that
  // it has not are opened, but for closed ones. Before anybody else has the job;
  // not to be used after an error. DataLoss for a content of another shape,
  // ResourceExhausted without room for the sessions or for what sums need.
  absl::Status Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
                       std::span<const SessionId> open);
  // After that: what sessions that are not open any more had pushed here, as an earlier
  // life's marks say, and what `content` (an empty one: nothing) does not hold of it.
  // Their marks are kept on.
  std::vector<LostPushes> TakeOverMarks(const ShardCheckpoint& content);
  // What it was restored from; zeros: it began anew. Constant once others have the job.
  struct Parent {
    uint64_t shard_epoch = 0;
    uint64_t generation = 0;
  };
  const Parent& parent() const { return parent_; }
  // A part of these cuts, of all stripes in order, is on the disk and read back.
  void NoteWritten(std::span<const StripeRecord> cuts);
  // What it has of a session's pushes, or that it passes. FailedPrecondition when it is not open,
  // InvalidArgument for stripes or a layout that are not there.
  absl::StatusOr<MarksReply> Marks(const MarksRequest& request) const;
  uint32_t stripes() const { return static_cast<uint32_t>(stripes_.size()); }
  size_t stripe_floats(uint32_t stripe) const { return stripes_[stripe]->size(); }
  // Floats of state for each parameter: the optimizer's, and behind them a round's sum.
  int state_slots() const {
    return kernel_->state_slots() + static_cast<int>(StateBehind::Of(request_).slots());
  }
  // Pushes applied to all stripes together: two cuts with the same sum are the same.
  uint64_t applied() const { return applied_.load(); }

  // Every byte of parameters and optimizer state, for tests.
  std::string Snapshot() const;

 private:
  PushVerdict PushRecordOf(const PushRequest& request, const PushRecord& record,
                           ChunkCursor* payload, AlignedFloats* scratch);
  PushVerdict ContributeRecordOf(const ContributeRequest& request, const ContributeRecord& record,
                                 ChunkCursor* payload, AlignedFloats* scratch);
  // A record's content, decoded.
  struct Content {
    // Where they came if they are FLOAT32 and lie in one piece, else in the scratch;
    // empty if the record has not the stripe's length.
    std::span<const float> values;
    bool finite = false;     // known to be
    absl::Status malformed;  // why it could not be decoded
  };
  Content TakeContent(uint32_t stripe, WireFormat format, uint32_t length, ChunkCursor* payload,
                      AlignedFloats* scratch) const;
  std::optional<FetchRecord> CopyVector(std::optional<SessionId> session, uint32_t stripe,
                                        const SliceVector& vector, std::span<float> out) const;
  void Finish(uint32_t stripe, uint64_t sequence, PushVerdict verdict, PushReply* reply);
  void CopyStripe(uint32_t stripe, std::span<float> out) const override;
  void WriteStripe(uint32_t stripe, std::span<const float> parameters) override;
  void Count(const PushVerdict& verdict);
  // Before anything is written: CheckWritable, and SliceWriting's word.
  absl::Status BeginWrite(uint64_t writer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  absl::Status CheckWritable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  absl::Status Seal(uint64_t writer, uint64_t checksum);
  uint64_t CloseEverywhere(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  absl::Status CheckRestorable(const ShardCheckpoint& content) const;
  // Closes sessions that the content holds and that are not in `open`.
  absl::Status CloseOthers(const ShardCheckpoint& content, std::span<const SessionId> open)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Opens a session, unless it was closed or overtaken.
  absl::Status Reopen(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // SessionTable allows it.
  absl::Status OpenEverywhere(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Of what the job remembers for ever of a worker that it has not seen yet.
  absl::Status ReserveSessionRecord(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // The job's, or one of its own for a stripe with biases that do not decay, or with
  // statistics.
  const OptimizerKernel* KernelOf(const ParameterLayout& layout, const Slice& stripe);
  // Adds up the counts of readers that are gone.
  void FoldReaders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(readers_mutex_);

  // An open one.
  struct OpenedSession {
    SessionSlot slot;
    MemoryBudget::Reservation memory;
    std::span<std::atomic<uint64_t>> marks;  // empty: there are none
  };
  // A closed one whose marks are kept, with its windows, until the generations that are
  // kept hold the close.
  struct MarkedClose {
    SessionId session;
    MemoryBudget::Reservation memory;
    std::optional<LostPushes> lost;  // at the close
    int generations = 0;             // written since
  };
  absl::StatusOr<MemoryBudget::Reservation> ReserveSession(SessionId session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  void KeepMarks(MarkedClose close) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Of an open session's, behind those of the stripes.
  std::atomic<uint64_t>* TableMark(std::span<std::atomic<uint64_t>> marks) const {
    return marks.empty() || tables_ == nullptr ? nullptr : &marks[stripes_.size()];
  }
  // Of those that `done` says it of.
  void ForgetMarks(absl::FunctionRef<bool(const MarkedClose&)> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);

  const CreateShardJobRequest request_;
  const MemoryBudget::Reservation memory_;
  MemoryBudget* const budget_;
  const std::shared_ptr<RateReductions> reductions_;  // null: no PlateauSchedule
  const std::unique_ptr<OptimizerKernel> kernel_;
  std::vector<std::unique_ptr<OptimizerKernel>> stripe_kernels_;  // see KernelOf
  const JobFacts facts_;
  const std::unique_ptr<TableSlice> tables_;
  const Clock* const clock_;
  SharedSlice slice_;                             // slots: under sessions_mutex_
  std::vector<std::unique_ptr<Stripe>> stripes_;  // made by Fill
  VectorStore vectors_;

  mutable Mutex sessions_mutex_;
  SessionTable sessions_ ABSL_GUARDED_BY(sessions_mutex_);
  SliceWriting writing_ ABSL_GUARDED_BY(sessions_mutex_);
  std::map<SessionId, OpenedSession> opened_ ABSL_GUARDED_BY(sessions_mutex_);
  MemoryBudget::Reservation session_records_ ABSL_GUARDED_BY(sessions_mutex_);
  const std::unique_ptr<SessionMarks> marks_ ABSL_PT_GUARDED_BY(sessions_mutex_);  // null: none
  std::vector<MarkedClose> marked_closes_ ABSL_GUARDED_BY(sessions_mutex_);  // the oldest first

  mutable Mutex readers_mutex_;
  mutable std::vector<std::shared_ptr<const ReadCounts>> readers_ ABSL_GUARDED_BY(readers_mutex_);

  std::atomic<bool> readable_;  // as writing_ says

  StalenessCounts staleness_;
  std::atomic<uint64_t> applied_{0};
  std::atomic<uint64_t> duplicates_{0};
  std::atomic<uint64_t> refused_{0};
  mutable std::atomic<uint64_t> fetched_stripes_{0};  // but for those of readers_
  mutable std::atomic<uint64_t> bytes_fetched_{0};
  std::atomic<uint64_t> bytes_pushed_{0};

  Parent parent_;
  uint64_t attempt_ = 0;
  std::atomic<bool> given_up_{false};
};

}  // namespace monsoon
