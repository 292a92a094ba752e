// SliceSessions: which sessions may push to a slice, and what is remembered of those that are
// closed: how much of them was applied, and their marks, until the generations that are kept hold
// the close. Whose the open ones are is no part of a generation: the coordinator keeps it.
//
// A session is opened and closed everywhere: in the table, in each stripe, in the tables' rows and
// in the slots of the shared slice. Stripes give the verdicts, under their own locks; a push
// does not come here.
//
// Thread safe. Lock order: mutex(), then one stripe at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/shm/memory_file.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/session_marks.h"
#include "ps_server/shard/session_owners.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/memory_budget.h"

namespace monsoon {

// What a session that has left had pushed here.
struct LeftPushes {
  SessionId session;
  std::vector<uint64_t> last;  // sequence, by stripe
  uint64_t rows = 0;           // pushes, of whose rows all were here
};

class SliceSessions {
 public:
  // All outlive this. `tables`: null without any. `marks` are the job's sessions'; null: none.
  SliceSessions(const JobFacts* facts, SliceStripes* stripes, TableSlice* tables,
                MemoryBudget* budget, std::unique_ptr<SessionMarks> marks);

  // Who holds it excludes that sessions are opened or closed.
  Mutex* mutex() const ABSL_LOCK_RETURNED(mutex_) { return &mutex_; }
  // Whether any session was ever opened, in an earlier life too.
  bool had_session() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return table_.had_session(); }

  bool IsOpen(SessionId session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return table_.IsOpen(session);
  }

  // The records that it has applied here, where it was open before.
  // ResourceExhausted when the budget has no room for its windows; FailedPrecondition too where it
  // is open as another owner's.
  absl::StatusOr<std::optional<uint64_t>> Open(SessionId session,
                                               const SessionOwner& owner = std::nullopt);
  // Before anybody else has the job: whose the sessions are that were made to be open.
  void Bind(const std::map<SessionId, SessionOwner>& owners);
  const SessionOwners& owners() const { return owners_; }
  // What the session applied here, and what it has not sent again. ResourceExhausted for
  // one that was never open, when there is no room to remember it.
  absl::StatusOr<CloseSessionReply> Close(SessionId session);
  // An earlier life had more of an open session than this one has by now: its worker is
  // about to send that again.
  bool AnyCatchesUp() const;
  // What it has of a session's pushes, or that it passes. FailedPrecondition when it is not open,
  // InvalidArgument for stripes or a layout that are not there.
  absl::StatusOr<MarksReply> Marks(const MarksRequest& request) const;
  // By which a reader of the shared slice sees that its session is closed. FailedPrecondition
  // when it is not open, or when too many read.
  absl::StatusOr<SessionSlot> SlotOf(SessionId session) const;

  // ---- the slice's memory file ----

  // By which readers map the slice; null: it has none, or none any more.
  std::shared_ptr<const MemoryFile> file() const;
  // No session is open.
  bool IsIdle() const;
  // Unless a session was opened meanwhile.
  void CloseFile();

  // ---- checkpoints ----

  // The sessions that are closed by now.
  void AddClosedTo(ShardCheckpoint* cut) const;
  // A newer generation is on the disk, of cuts that were taken before.
  void NoteWritten();
  // Before anybody else has the job: only those of `open`, rising and one a worker, are open after
  // it. Others that the content holds are closed, and those that it has not are opened, but for
  // closed ones. ResourceExhausted without room for them.
  absl::Status Restore(const ShardCheckpoint& content, std::span<const SessionId> open);
  // After that, or after the sessions of a slice without a content were opened: what sessions
  // that are not open any more had pushed here, as an earlier life's marks say, and what
  // `content` (an empty one: nothing) does not hold of it. Their marks are kept on. Of those in
  // `left` the marks need not say it: a power cut may have taken them.
  std::vector<LostPushes> TakeOverMarks(const ShardCheckpoint& content,
                                        std::span<const LeftPushes> left = {});

 private:
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

  // SessionTable allows it.
  absl::Status OpenEverywhere(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t CloseEverywhere(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens a session, unless it was closed or overtaken.
  absl::Status Reopen(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes sessions that the content holds and that are not in `open`.
  absl::Status CloseOthers(const ShardCheckpoint& content, std::span<const SessionId> open)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<MemoryBudget::Reservation> ReserveSession(SessionId session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of what the job remembers for ever of a worker that it has not seen yet.
  absl::Status ReserveRecord(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What the content lacks of a session that is not open; nothing: it lacks nothing, or that is
  // not known. `left`: null where marks alone tell.
  std::optional<LostPushes> TakeOver(const ShardCheckpoint& content, SessionId session,
                                     const LeftPushes* left) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepMarks(MarkedClose close) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of those that `done` says it of.
  void ForgetMarks(absl::FunctionRef<bool(const MarkedClose&)> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of an open session's, behind those of the stripes.
  std::atomic<uint64_t>* TableMark(std::span<std::atomic<uint64_t>> marks) const {
    return marks.empty() || tables_ == nullptr ? nullptr : &marks[stripes_->count()];
  }

  const JobFacts& facts_;
  SliceStripes* const stripes_;  // slots of its slice: under mutex_
  TableSlice* const tables_;
  MemoryBudget* const budget_;

  SessionOwners owners_;
  mutable Mutex mutex_;
  SessionTable table_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, OpenedSession> opened_ ABSL_GUARDED_BY(mutex_);
  MemoryBudget::Reservation records_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<SessionMarks> marks_ ABSL_PT_GUARDED_BY(mutex_);  // null: none
  std::vector<MarkedClose> marked_closes_ ABSL_GUARDED_BY(mutex_);        // the oldest first
};

}  // namespace monsoon
