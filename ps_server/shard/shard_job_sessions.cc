// ShardJob: its sessions, and the readers of its shared parameters.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

// What the job remembers of each worker that had a session, with the allocator's own
// bytes: nodes of three maps.
constexpr uint64_t kSessionRecordBytes = 384;

}  // namespace

uint64_t ShardJob::CloseEverywhere(SessionId session) {
  const auto opened = opened_.find(session);
  if (opened != opened_.end()) {
    slice_.CloseSlot(opened->second.slot);
  }
  uint64_t applied = 0;
  for (const auto& stripe : stripes_) {
    applied += stripe->CloseSession(session);
  }
  if (opened != opened_.end()) {
    opened_.erase(opened);  // its memory is free now
  }
  return applied;
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
  ASSIGN_OR_RETURN(
      MemoryBudget::Reservation memory,
      budget_->Reserve(stripes_.size() * kSessionStripeBytes, absl::StrCat("job ", facts_.job),
                       absl::StrCat("the session of worker/", session.worker)));
  RETURN_IF_ERROR(ReserveSessionRecord(session.worker));
  if (opening.overtaken.has_value()) {
    sessions_.RecordClose(*opening.overtaken, CloseEverywhere(*opening.overtaken));
  }
  sessions_.RecordOpen(session);
  const SessionSlot slot = slice_.TakeSlot();
  opened_.try_emplace(session, OpenedSession{slot, std::move(memory)});
  for (const auto& stripe : stripes_) {
    stripe->OpenSession(session, slot);
  }
  slice_.Publish(slot);
  return absl::OkStatus();
}

absl::StatusOr<MarksReply> ShardJob::Marks(const MarksRequest& request) const {
  RETURN_IF_ERROR(ValidateMarks(facts_, request));
  const SessionId session{request.session().worker(), request.session().incarnation()};
  MarksReply reply;
  reply.set_shard_epoch(facts_.shard_epoch);
  reply.set_parent_epoch(parent_.shard_epoch);
  reply.set_parent_generation(parent_.generation);
  for (uint32_t i = 0; i < request.stripe_count(); ++i) {
    std::optional<StripeMarks> marks = stripes_[request.first_stripe() + i]->Marks(session);
    if (!marks.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", facts_.job, ": ", NotOpen(session)));
    }
    *reply.add_stripe() = *std::move(marks);
  }
  return reply;
}

absl::StatusOr<ShardJob::Shared> ShardJob::Share(std::optional<SessionId> session) {
  Shared shared{slice_.fd(), {}, slice_.shape()};
  if (shared.fd < 0) {
    return absl::FailedPreconditionError("the system has no memory files");
  }
  if (session.has_value()) {
    MutexLock lock(&sessions_mutex_);
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

absl::StatusOr<uint64_t> ShardJob::CloseSession(SessionId session) {
  MutexLock lock(&sessions_mutex_);
  if (const std::optional<uint64_t> applied = sessions_.ClosedApplied(session)) {
    return *applied;
  }
  RETURN_IF_ERROR(ReserveSessionRecord(session.worker));
  const uint64_t applied = CloseEverywhere(session);
  sessions_.RecordClose(session, applied);
  return applied;
}

}  // namespace monsoon
