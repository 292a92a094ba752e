#include "ps_server/shard/slice_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/shard/loss_count.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

// What the job remembers of each worker that had a session, with the allocator's own
// bytes: nodes of three maps.
constexpr uint64_t kSessionRecordBytes = 384;

// Closed sessions of which marks are kept. Far more than a job loses between two
// generations; what more of them lose is not told.
constexpr size_t kMarkedCloses = 64;

// The last sequence of the session that these windows have seen.
uint64_t HeldOf(const google::protobuf::RepeatedPtrField<SessionWindowRecord>& windows,
                SessionId session) {
  for (const SessionWindowRecord& window : windows) {
    if (window.worker() == session.worker && window.incarnation() == session.incarnation) {
      return window.last();
    }
  }
  return 0;
}
// The same of a stripe of the content.
uint64_t HeldOf(const ShardCheckpoint& content, int stripe, SessionId session) {
  return stripe < content.stripe_size() ? HeldOf(content.stripe(stripe).session(), session) : 0;
}

// The content was written so long after the session's close that it has no windows of it.
bool IsForgotten(const ShardCheckpoint& content, SessionId session) {
  const bool closed = std::ranges::any_of(content.closed(), [&](const ClosedSession& each) {
    return each.worker() == session.worker && each.incarnation() >= session.incarnation;
  });
  return closed && std::ranges::none_of(content.stripe(), [&](const StripeRecord& stripe) {
           return std::ranges::any_of(stripe.session(), [&](const SessionWindowRecord& window) {
             return window.worker() == session.worker &&
                    window.incarnation() == session.incarnation;
           });
         });
}

// To what the session had pushed, where they are lower.
void Raise(std::span<std::atomic<uint64_t>> marks, const LeftPushes& left) {
  for (size_t i = 0; i < marks.size(); ++i) {
    const uint64_t last = i < left.last.size() ? left.last[i] : left.rows;
    if (marks[i].load(std::memory_order_relaxed) < last) {
      marks[i].store(last, std::memory_order_relaxed);
    }
  }
}

}  // namespace

SliceSessions::SliceSessions(const JobFacts* facts, SliceStripes* stripes, TableSlice* tables,
                             MemoryBudget* budget, std::unique_ptr<SessionMarks> marks)
    : facts_(*facts),
      stripes_(stripes),
      tables_(tables),
      budget_(budget),
      owners_(facts->job),
      marks_(std::move(marks)) {}

// ---- opening and closing ----------------------------------------------------------

absl::StatusOr<std::optional<uint64_t>> SliceSessions::Open(SessionId session,
                                                            const SessionOwner& owner) {
  MutexLock lock(&mutex_);
  absl::StatusOr<SessionTable::Opening> opening = table_.PlanOpen(session);
  if (!opening.ok()) {
    return Annotate(opening.status(), absl::StrCat("job ", facts_.job));
  }
  if (opening->already_open) {
    RETURN_IF_ERROR(owners_.CheckIs(session, owner));
    uint64_t applied = 0;
    for (const auto& stripe : stripes_->all()) {
      applied += stripe->AppliedBy(session);
    }
    return std::make_optional(applied);
  }
  RETURN_IF_ERROR(OpenEverywhere(session));
  owners_.Set(session, owner);
  return std::optional<uint64_t>();
}

void SliceSessions::Bind(const std::map<SessionId, SessionOwner>& owners) {
  MutexLock lock(&mutex_);
  for (const auto& [session, owner] : owners) {
    if (table_.IsOpen(session)) {
      owners_.Set(session, owner);
    }
  }
}

absl::Status SliceSessions::OpenEverywhere(SessionId session) {
  // What can fail comes first: after an error nothing has changed, and a session that this one
  // overtakes is still open.
  ASSIGN_OR_RETURN(const SessionTable::Opening opening, table_.PlanOpen(session));
  ASSIGN_OR_RETURN(MemoryBudget::Reservation memory, ReserveSession(session));
  RETURN_IF_ERROR(ReserveRecord(session.worker));
  if (opening.overtaken.has_value()) {
    table_.RecordClose(*opening.overtaken, CloseEverywhere(*opening.overtaken));
  }
  table_.RecordOpen(session);
  const SessionSlot slot = stripes_->slice()->TakeSlot();
  const std::span<std::atomic<uint64_t>> marks =
      marks_ == nullptr ? std::span<std::atomic<uint64_t>>() : marks_->Open(session);
  opened_.try_emplace(session, OpenedSession{slot, std::move(memory), marks});
  for (size_t i = 0; i < stripes_->count(); ++i) {
    stripes_->at(i).OpenSession(session, slot, marks.empty() ? nullptr : &marks[i]);
  }
  if (tables_ != nullptr) {
    tables_->Open(session, TableMark(marks));
  }
  // Last: who reads under this slot finds the session's sequences in all stripes.
  stripes_->slice()->Publish(slot);
  return absl::OkStatus();
}

absl::StatusOr<CloseSessionReply> SliceSessions::Close(SessionId session) {
  MutexLock lock(&mutex_);
  CloseSessionReply reply;
  if (const std::optional<uint64_t> applied = table_.ClosedApplied(session)) {
    reply.set_applied(*applied);
  } else {
    RETURN_IF_ERROR(ReserveRecord(session.worker));
    reply.set_applied(CloseEverywhere(session));
    table_.RecordClose(session, reply.applied());
  }
  const auto kept = std::ranges::find(marked_closes_, session, &MarkedClose::session);
  if (kept != marked_closes_.end() && kept->lost) {
    *reply.mutable_lost() = *kept->lost;
  }
  return reply;
}

uint64_t SliceSessions::CloseEverywhere(SessionId session) {
  const auto opened = opened_.find(session);
  if (opened == opened_.end()) {
    return 0;
  }
  // First: a reader asks for its slot after its last copy, so none of a stripe that the session
  // is closed in counts.
  stripes_->slice()->CloseSlot(opened->second.slot);
  const std::span<std::atomic<uint64_t>> marks = opened->second.marks;
  uint64_t applied = 0;
  LossCount loss;
  // With each stripe's lock once: after that no push of the session is in progress or can begin.
  for (size_t i = 0; i < stripes_->count(); ++i) {
    const Stripe::Closed closed = stripes_->at(i).CloseSession(session, !marks.empty());
    applied += closed.applied;
    // What its worker should have sent again.
    loss.Add(closed.last, marks.empty() ? 0 : marks[i].load(std::memory_order_relaxed));
  }
  if (tables_ != nullptr) {
    const uint64_t last = tables_->Close(session, !marks.empty());
    const std::atomic<uint64_t>* const mark = TableMark(marks);
    loss.AddRows(last, mark == nullptr ? 0 : mark->load(std::memory_order_relaxed));
  }
  if (!marks.empty()) {
    KeepMarks({session, std::move(opened->second.memory),
               loss.Report(facts_.shard, session, marks_->complete(session))});
  }
  owners_.Forget(session);
  opened_.erase(opened);  // its memory is free now, or kept
  return applied;
}

absl::Status SliceSessions::ReserveRecord(uint32_t worker) {
  if (table_.Knows(worker)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      MemoryBudget::Reservation memory,
      budget_->Reserve(kSessionRecordBytes, absl::StrCat("job ", facts_.job), "a session"));
  records_.Add(std::move(memory));
  return absl::OkStatus();
}

absl::StatusOr<MemoryBudget::Reservation> SliceSessions::ReserveSession(SessionId session) {
  const uint64_t marks = marks_ == nullptr ? 0 : marks_->session_bytes();
  const uint64_t tables = tables_ == nullptr ? 0 : tables_->SessionBytes();
  return budget_->Reserve(
      stripes_->count() * kSessionStripeBytes + kSessionOwnerBytes + marks + tables,
      absl::StrCat("job ", facts_.job), absl::StrCat("the session of worker/", session.worker));
}

// ---- what others ask ---------------------------------------------------------------

bool SliceSessions::AnyCatchesUp() const {
  MutexLock lock(&mutex_);
  return std::ranges::any_of(opened_, [this](const auto& opened) {
    return (tables_ != nullptr && tables_->IsBehind(opened.first)) ||
           std::ranges::any_of(stripes_->all(),
                               [&](const auto& stripe) { return stripe->IsBehind(opened.first); });
  });
}

absl::StatusOr<MarksReply> SliceSessions::Marks(const MarksRequest& request) const {
  RETURN_IF_ERROR(ValidateMarks(facts_, request));
  const SessionId session{request.session().worker(), request.session().incarnation()};
  MarksReply reply;
  reply.set_shard_epoch(facts_.shard_epoch);
  for (uint32_t i = 0; i < request.stripe_count(); ++i) {
    if (request.passes()) {
      stripes_->at(request.first_stripe() + i).Pass(session);
    }
    std::optional<StripeMarks> marks = stripes_->at(request.first_stripe() + i).Marks(session);
    if (!marks.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", facts_.job, ": ", NotOpen(session)));
    }
    *reply.add_stripe() = *std::move(marks);
  }
  if (tables_ != nullptr) {
    *reply.mutable_rows() = tables_->Marks(session);
  }
  return reply;
}

absl::StatusOr<SessionSlot> SliceSessions::SlotOf(SessionId session) const {
  MutexLock lock(&mutex_);
  const auto opened = opened_.find(session);
  if (opened == opened_.end() || opened->second.slot.ticket == 0) {
    return absl::FailedPreconditionError(
        opened == opened_.end() ? NotOpen(session) : "too many sessions read shared memory");
  }
  return opened->second.slot;
}

// ---- the slice's memory file --------------------------------------------------------

std::shared_ptr<const MemoryFile> SliceSessions::file() const {
  MutexLock lock(&mutex_);
  return stripes_->slice()->file();
}

bool SliceSessions::IsIdle() const {
  MutexLock lock(&mutex_);
  return opened_.empty();
}

void SliceSessions::CloseFile() {
  MutexLock lock(&mutex_);
  if (opened_.empty()) {
    stripes_->slice()->CloseFile();
  }
}

// ---- marks of closed sessions ------------------------------------------------------

void SliceSessions::KeepMarks(MarkedClose close) {
  marked_closes_.push_back(std::move(close));
  if (marked_closes_.size() > kMarkedCloses) {
    const SessionId oldest = marked_closes_.front().session;
    ForgetMarks([&](const MarkedClose& kept) { return kept.session == oldest; });
  }
}

void SliceSessions::ForgetMarks(absl::FunctionRef<bool(const MarkedClose&)> done) {
  std::erase_if(marked_closes_, [&](const MarkedClose& close) {
    mutex_.AssertHeld();
    // The marks first: with them and without a window all of it would count as lost.
    if (!done(close) || !marks_->Forget(close.session)) {
      return false;
    }
    for (const auto& stripe : stripes_->all()) {
      stripe->ForgetClosed(close.session);
    }
    if (tables_ != nullptr) {
      tables_->Forget(close.session);
    }
    return true;
  });
}

std::vector<LostPushes> SliceSessions::TakeOverMarks(const ShardCheckpoint& content,
                                                     std::span<const LeftPushes> left) {
  std::vector<LostPushes> all;
  MutexLock lock(&mutex_);
  if (marks_ == nullptr) {
    return all;
  }
  std::map<SessionId, const LeftPushes*> sessions;
  for (const SessionId& session : marks_->Earlier()) {
    sessions[session] = nullptr;
  }
  for (const LeftPushes& each : left) {
    // One whose windows are not kept any more: what was lost of it was told before that.
    if (sessions.contains(each.session) || !IsForgotten(content, each.session)) {
      sessions[each.session] = &each;
    }
  }
  for (const auto& [session, pushes] : sessions) {
    if (table_.IsOpen(session)) {  // its worker sends it again, or the close tells
      if (pushes != nullptr) {
        Raise(opened_.find(session)->second.marks, *pushes);
      }
    } else if (std::optional<LostPushes> lost = TakeOver(content, session, pushes)) {
      all.push_back(*std::move(lost));
    }
  }
  return all;
}

std::optional<LostPushes> SliceSessions::TakeOver(const ShardCheckpoint& content, SessionId session,
                                                  const LeftPushes* left) {
  absl::StatusOr<MemoryBudget::Reservation> memory = ReserveSession(session);
  const std::span<std::atomic<uint64_t>> marks = marks_->Open(session);
  const bool kept = memory.ok() && ReserveRecord(session.worker).ok() && !marks.empty();
  if (!kept && left == nullptr) {
    return std::nullopt;
  }
  if (left != nullptr) {
    Raise(marks, *left);
  }
  LossCount loss;
  uint64_t applied = 0;
  for (size_t i = 0; i < stripes_->count(); ++i) {
    const uint64_t held = HeldOf(content, static_cast<int>(i), session);
    applied += held;
    loss.Add(held, kept ? marks[i].load(std::memory_order_relaxed) : left->last[i]);
    if (kept) {
      stripes_->at(i).KeepClosed(session, held);
    }
  }
  if (tables_ != nullptr) {
    const uint64_t held = HeldOf(content.row_session(), session);
    loss.AddRows(held, kept ? TableMark(marks)->load(std::memory_order_relaxed) : left->rows);
    if (kept) {
      tables_->KeepClosed(session, held);
    }
  }
  if (kept && !table_.ClosedApplied(session).has_value()) {
    table_.RecordClose(session, applied);  // its marks are of a close: it is never open again
  }
  std::optional<LostPushes> lost =
      loss.Report(facts_.shard, session, left != nullptr || marks_->complete(session));
  if (kept) {
    KeepMarks({session, *std::move(memory), lost});
  }
  return lost;
}

// ---- checkpoints --------------------------------------------------------------------

void SliceSessions::AddClosedTo(ShardCheckpoint* cut) const {
  MutexLock lock(&mutex_);
  for (const auto& [worker, closed] : table_.closed()) {
    ClosedSession* const session = cut->add_closed();
    session->set_worker(worker);
    session->set_incarnation(closed.incarnation);
    session->set_applied(closed.applied);
  }
}

void SliceSessions::NoteWritten() {
  // The cut of the first of them may be older than the close.
  constexpr int kHoldTheClose = 3;
  MutexLock lock(&mutex_);
  for (MarkedClose& close : marked_closes_) {
    ++close.generations;
  }
  ForgetMarks([](const MarkedClose& close) { return close.generations >= kHoldTheClose; });
}

absl::Status SliceSessions::Restore(const ShardCheckpoint& content,
                                    std::span<const SessionId> open) {
  MutexLock lock(&mutex_);
  // Closes before openings: a session that was closed while the content was cut stays closed,
  // whatever the coordinator knew of it when it made its list.
  for (const ClosedSession& closed : content.closed()) {
    RETURN_IF_ERROR(ReserveRecord(closed.worker()));
    table_.RecordClose({closed.worker(), closed.incarnation()}, closed.applied());
  }
  RETURN_IF_ERROR(CloseOthers(content, open));
  if (!table_.closed().empty()) {
    table_.NoteEarlierSessions();
  }
  // Some may have been opened while the stripes were cut, so that only the last of them
  // have it, or after that: what the others have of it is nothing.
  for (const SessionId& session : open) {
    RETURN_IF_ERROR(Reopen(session));
  }
  return absl::OkStatus();
}

absl::Status SliceSessions::CloseOthers(const ShardCheckpoint& content,
                                        std::span<const SessionId> open) {
  std::map<SessionId, uint64_t> applied;  // of those to close
  for (const StripeRecord& stripe : content.stripe()) {
    for (const SessionWindowRecord& window : stripe.session()) {
      const SessionId session{window.worker(), window.incarnation()};
      if (!std::ranges::binary_search(open, session)) {
        applied[session] += window.applied();
      }
    }
  }
  for (const auto& [session, records] : applied) {
    if (!table_.ClosedApplied(session).has_value()) {
      RETURN_IF_ERROR(ReserveRecord(session.worker));
      table_.RecordClose(session, records);
    }
  }
  return absl::OkStatus();
}

absl::Status SliceSessions::Reopen(SessionId session) {
  if (table_.IsOpen(session)) {
    return absl::OkStatus();
  }
  if (!table_.PlanOpen(session).ok()) {
    return absl::OkStatus();  // closed, or overtaken, while the stripes were cut
  }
  return OpenEverywhere(session);
}

}  // namespace monsoon
