#include "common/collective/peer_mailbox.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/collective/take_floats.h"
#include "common/security/identity.h"

namespace monsoon {
namespace {

// That the frame is of the member that it names.
absl::Status CheckSender(const PeerHeader& header, const Seat& seat, const Caller& caller) {
  if (!caller.member.has_value() || header.sender >= seat.callers.size() ||
      seat.callers[header.sender].empty()) {
    return absl::OkStatus();
  }
  const std::string name = MemberName(caller.member->identity);
  if (name == seat.callers[header.sender]) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      name, " sends in the name of ", seat.callers[header.sender], ", a member of the group"));
}

}  // namespace

void PeerMailbox::Register(FrameKinds* kinds) {
  kinds->AddPeer(kCollectiveKind,
                 [this](DataHeader* request, ChunkCursor* payload, FrameScratch* scratch) {
                   return Serve(request, payload, scratch->caller());
                 });
}

absl::Status PeerMailbox::Open(uint64_t generation, std::shared_ptr<Seat> seat) {
  MutexLock lock(&mutex_);
  if (generation <= generation_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "generation ", generation, " of the group is over; the newest is ", generation_));
  }
  generation_ = generation;
  seat_ = std::move(seat);
  return absl::OkStatus();
}

void PeerMailbox::Close(uint64_t generation) {
  MutexLock lock(&mutex_);
  if (generation_ == generation) {
    seat_ = nullptr;
  }
}

uint64_t PeerMailbox::newest() const {
  MutexLock lock(&mutex_);
  return generation_;
}

absl::StatusOr<std::shared_ptr<Seat>> PeerMailbox::Find(const PeerHeader& header) {
  MutexLock lock(&mutex_);
  if (header.generation > generation_) {
    return absl::UnavailableError(
        absl::StrCat("generation ", header.generation, " has not begun here"));
  }
  if (header.generation < generation_ || seat_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "generation ", header.generation, " of the group is over here",
        header.generation < generation_ ? absl::StrCat("; this is generation ", generation_)
                                        : ": its member has left"));
  }
  return seat_;
}

absl::StatusOr<PeerAnswer> PeerMailbox::Take(const PeerHeader& header, ChunkCursor* payload,
                                             Seat* seat) {
  const absl::Duration now = Clock::Real()->Now();
  MemberCore::Arrival arrival;
  PeerAnswer answer;
  {
    MutexLock lock(&seat->mutex);
    ASSIGN_OR_RETURN(arrival, seat->core.Arrive(header, payload->remaining(), now));
    if (!arrival.taking.has_value() && !arrival.keep) {
      answer = seat->core.AnswerTo(header);
    }
  }
  bool wakes = arrival.wakes;
  MONSOON_FAIL_POINT("collective.came");
  if (arrival.taking.has_value()) {
    const MemberCore::Taking& taking = *arrival.taking;
    taking.add ? AddFloats(payload, taking.to) : CopyFloats(payload, taking.to);
    MutexLock lock(&seat->mutex);
    wakes = seat->core.EndTaking(taking) || wakes;
    if (!seat->core.failed().ok()) {
      seat->idle.NotifyAll();
    }
    answer = seat->core.AnswerTo(header);
  } else if (arrival.keep) {
    AlignedFloats floats = AlignedFloats::Uninitialized(payload->remaining() / sizeof(float));
    CopyFloats(payload, floats.span());
    MutexLock lock(&seat->mutex);
    wakes = seat->core.Keep(header, std::move(floats)) || wakes;
    answer = seat->core.AnswerTo(header);
  }
  MONSOON_FAIL_POINT("collective.taken");
  if (wakes) {
    seat->Wake();
  }
  return answer;
}

absl::StatusOr<ServedFrame> PeerMailbox::Serve(DataHeader* request, ChunkCursor* payload,
                                               const Caller& caller) {
  ASSIGN_OR_RETURN(const PeerHeader header, DecodePeerHeader(request->peer().body()));
  const absl::StatusOr<std::shared_ptr<Seat>> seat = Find(header);
  if (seat.ok()) {
    RETURN_IF_ERROR(CheckSender(header, **seat, caller));
  }
  const absl::StatusOr<PeerAnswer> answer =
      seat.ok() ? Take(header, payload, seat->get()) : seat.status();
  ServedFrame served;
  if (absl::IsUnavailable(answer.status())) {
    served.first = ErrorAnswer(answer.status(), REFUSED_BUSY);
    return served;
  }
  RETURN_IF_ERROR(answer.status());
  PeerFrame* const reply = served.first.emplace().header.mutable_peer();
  reply->set_kind(kCollectiveKind);
  reply->set_body(EncodePeerAnswer(*answer));
  return served;
}

}  // namespace monsoon
