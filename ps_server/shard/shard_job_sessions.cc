// ShardJob: its sessions, and the readers of its shared parameters.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/shard/loss_count.h"
#include "ps_server/shard/shard_job.h"

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

}  // namespace

uint64_t ShardJob::CloseEverywhere(SessionId session) {
  const auto opened = opened_.find(session);
  if (opened == opened_.end()) {
    return 0;
  }
  slice_.CloseSlot(opened->second.slot);
  const std::span<std::atomic<uint64_t>> marks = opened->second.marks;
  uint64_t applied = 0;
  LossCount loss;
  for (size_t i = 0; i < stripes_.size(); ++i) {
    const Stripe::Closed closed = stripes_[i]->CloseSession(session, !marks.empty());
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
  opened_.erase(opened);  // its memory is free now, or kept
  return applied;
}

bool ShardJob::CatchesUp() const {
  MutexLock lock(&sessions_mutex_);
  return std::ranges::any_of(opened_, [this](const auto& opened) {
    return (tables_ != nullptr && tables_->IsBehind(opened.first)) ||
           std::ranges::any_of(stripes_,
                               [&](const auto& stripe) { return stripe->IsBehind(opened.first); });
  });
}

absl::Status ShardJob::ReserveSessionRecord(uint32_t worker) {
  if (sessions_.Knows(worker)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      MemoryBudget::Reservation memory,
      budget_->Reserve(kSessionRecordBytes, absl::StrCat("job ", facts_.job), "a session"));
  session_records_.Add(std::move(memory));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint64_t>> ShardJob::OpenSession(SessionId session) {
  MutexLock lock(&sessions_mutex_);
  absl::StatusOr<SessionTable::Opening> opening = sessions_.PlanOpen(session);
  if (!opening.ok()) {
    return Annotate(opening.status(), absl::StrCat("job ", facts_.job));
  }
  if (opening->already_open) {
    uint64_t applied = 0;
    for (const auto& stripe : stripes_) {
      applied += stripe->AppliedBy(session);
    }
    return std::make_optional(applied);
  }
  RETURN_IF_ERROR(OpenEverywhere(session));
  return std::optional<uint64_t>();
}

absl::Status ShardJob::OpenEverywhere(SessionId session) {
  ASSIGN_OR_RETURN(const SessionTable::Opening opening, sessions_.PlanOpen(session));
  ASSIGN_OR_RETURN(MemoryBudget::Reservation memory, ReserveSession(session));
  RETURN_IF_ERROR(ReserveSessionRecord(session.worker));
  if (opening.overtaken.has_value()) {
    sessions_.RecordClose(*opening.overtaken, CloseEverywhere(*opening.overtaken));
  }
  sessions_.RecordOpen(session);
  const SessionSlot slot = slice_.TakeSlot();
  const std::span<std::atomic<uint64_t>> marks =
      marks_ == nullptr ? std::span<std::atomic<uint64_t>>() : marks_->Open(session);
  opened_.try_emplace(session, OpenedSession{slot, std::move(memory), marks});
  for (size_t i = 0; i < stripes_.size(); ++i) {
    stripes_[i]->OpenSession(session, slot, marks.empty() ? nullptr : &marks[i]);
  }
  if (tables_ != nullptr) {
    tables_->Open(session, TableMark(marks));
  }
  slice_.Publish(slot);
  return absl::OkStatus();
}

absl::StatusOr<MemoryBudget::Reservation> ShardJob::ReserveSession(SessionId session) {
  const uint64_t marks = marks_ == nullptr ? 0 : marks_->session_bytes();
  const uint64_t tables = tables_ == nullptr ? 0 : tables_->SessionBytes();
  return budget_->Reserve(stripes_.size() * kSessionStripeBytes + marks + tables,
                          absl::StrCat("job ", facts_.job),
                          absl::StrCat("the session of worker/", session.worker));
}

void ShardJob::KeepMarks(MarkedClose close) {
  marked_closes_.push_back(std::move(close));
  if (marked_closes_.size() > kMarkedCloses) {
    const SessionId oldest = marked_closes_.front().session;
    ForgetMarks([&](const MarkedClose& kept) { return kept.session == oldest; });
  }
}

void ShardJob::ForgetMarks(absl::FunctionRef<bool(const MarkedClose&)> done) {
  std::erase_if(marked_closes_, [&](const MarkedClose& close) {
    sessions_mutex_.AssertHeld();
    // The marks first: with them and without a window all of it would count as lost.
    if (!done(close) || !marks_->Forget(close.session)) {
      return false;
    }
    for (const auto& stripe : stripes_) {
      stripe->ForgetClosed(close.session);
    }
    if (tables_ != nullptr) {
      tables_->Forget(close.session);
    }
    return true;
  });
}

std::vector<LostPushes> ShardJob::TakeOverMarks(const ShardCheckpoint& content) {
  std::vector<LostPushes> all;
  MutexLock lock(&sessions_mutex_);
  if (marks_ == nullptr) {
    return all;
  }
  for (const SessionId& session : marks_->Earlier()) {
    if (sessions_.IsOpen(session)) {
      continue;  // its worker sends it again
    }
    absl::StatusOr<MemoryBudget::Reservation> memory = ReserveSession(session);
    const std::span<std::atomic<uint64_t>> marks = marks_->Open(session);
    if (!memory.ok() || marks.empty()) {
      continue;
    }
    LossCount loss;
    for (size_t i = 0; i < stripes_.size(); ++i) {
      const uint64_t held = HeldOf(content, static_cast<int>(i), session);
      stripes_[i]->KeepClosed(session, held);
      loss.Add(held, marks[i].load(std::memory_order_relaxed));
    }
    if (tables_ != nullptr) {
      const uint64_t held = HeldOf(content.row_session(), session);
      tables_->KeepClosed(session, held);
      loss.AddRows(held, TableMark(marks)->load(std::memory_order_relaxed));
    }
    std::optional<LostPushes> lost = loss.Report(facts_.shard, session, marks_->complete(session));
    if (lost) {
      all.push_back(*lost);
    }
    KeepMarks({session, *std::move(memory), std::move(lost)});
  }
  return all;
}

absl::StatusOr<MarksReply> ShardJob::Marks(const MarksRequest& request) const {
  RETURN_IF_ERROR(ValidateMarks(facts_, request));
  const SessionId session{request.session().worker(), request.session().incarnation()};
  MarksReply reply;
  reply.set_shard_epoch(facts_.shard_epoch);
  reply.set_parent_epoch(parent_.shard_epoch);
  reply.set_parent_generation(parent_.generation);
  for (uint32_t i = 0; i < request.stripe_count(); ++i) {
    if (request.passes()) {
      stripes_[request.first_stripe() + i]->Pass(session);
    }
    std::optional<StripeMarks> marks = stripes_[request.first_stripe() + i]->Marks(session);
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

absl::StatusOr<ShardJob::Shared> ShardJob::Share(std::optional<SessionId> session) {
  Shared shared{slice_.fd(), {}, slice_.shape()};
  if (shared.fd < 0) {
    return absl::FailedPreconditionError("the system has no memory files");
  }
  MutexLock lock(&sessions_mutex_);
  if (session.has_value() && request_.has_rounds()) {
    return absl::FailedPreconditionError("what it has pushed may be in a round that is open");
  }
  if (!session.has_value()) {
    if (request_.written_by_client() && !sessions_.had_session()) {
      return absl::FailedPreconditionError("its parameters may still be written");
    }
  } else {
    const auto opened = opened_.find(*session);
    if (opened == opened_.end() || opened->second.slot.ticket == 0) {
      return absl::FailedPreconditionError(
          opened == opened_.end() ? NotOpen(*session) : "too many sessions read shared memory");
    }
    shared.slot = opened->second.slot;
  }
  return shared;
}

void ShardJob::AddReader(std::shared_ptr<const ReadCounts> counts) {
  MutexLock lock(&readers_mutex_);
  FoldReaders();
  readers_.push_back(std::move(counts));
}

void ShardJob::FoldReaders() const {
  std::erase_if(readers_, [this](const std::shared_ptr<const ReadCounts>& reader) {
    if (reader.use_count() > 1) {
      return false;
    }
    fetched_stripes_ += reader->stripes.load();
    bytes_fetched_ += reader->bytes.load();
    return true;
  });
}

absl::StatusOr<CloseSessionReply> ShardJob::CloseSession(SessionId session) {
  MutexLock lock(&sessions_mutex_);
  CloseSessionReply reply;
  if (const std::optional<uint64_t> applied = sessions_.ClosedApplied(session)) {
    reply.set_applied(*applied);
  } else {
    RETURN_IF_ERROR(ReserveSessionRecord(session.worker));
    reply.set_applied(CloseEverywhere(session));
    sessions_.RecordClose(session, reply.applied());
  }
  const auto kept = std::ranges::find(marked_closes_, session, &MarkedClose::session);
  if (kept != marked_closes_.end() && kept->lost) {
    *reply.mutable_lost() = *kept->lost;
  }
  return reply;
}

}  // namespace monsoon
