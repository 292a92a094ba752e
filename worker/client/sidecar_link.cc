#include "worker/client/sidecar_link.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace monsoon {
namespace {

// One that closed its socket is about to end, and its status says why.
constexpr int kEndTimeoutMs = 2000;
// Sidecars that die without a step between: what kills them will not pass.
constexpr uint32_t kMostRestarts = 3;
// Beyond what it tells the coordinator to bear, until it says why it could not join.
constexpr int kJoinGraceMs = 5000;
// A sidecar that leaves gives up its last push after 15 seconds.
constexpr int kLeaveTimeoutMs = 20000;

}  // namespace

SidecarLink::SidecarLink(Start start) : owner_(getpid()), start_(std::move(start)) {}

SidecarLink::~SidecarLink() {
  if (memory_ >= 0) {
    close(memory_);
  }
  if (getpid() != owner_) {
    (void)sidecar_.release();  // it is the parent's
  }
}

// ---- entering and leaving --------------------------------------------------------

std::string SidecarLink::JoinFields(const std::string& died) const {
  FieldWriter fields;
  fields.Bytes(start_.join.data(), start_.join.size());
  fields.String(died.empty() ? "" : job_);
  fields.String(died);
  return fields.bytes();
}

Result SidecarLink::Join(uint32_t timeout_ms, Message* answer) {
  std::string error;
  sidecar_ = SidecarProcess::Start(start_.executable, start_.log_file, &error);
  if (sidecar_ == nullptr) {
    return {MONSOON_UNAVAILABLE, error};
  }
  if (!sidecar_->socket().Send(MessageKind::kJoin, JoinFields(""))) {
    return SidecarIsGone();
  }
  const auto wait_ms =
      static_cast<int>(std::min<int64_t>(INT_MAX, int64_t{timeout_ms} + kJoinGraceMs));
  switch (sidecar_->socket().Receive(wait_ms, answer, &memory_)) {
    case MessageSocket::Outcome::kDone:
      return {};
    case MessageSocket::Outcome::kInterrupted:
      return {MONSOON_INTERRUPTED, "a signal came while the job was being joined; join again"};
    case MessageSocket::Outcome::kTimeout:
      return {MONSOON_DEADLINE_EXCEEDED, "the sidecar did not answer"};
    default:
      return SidecarIsGone();
  }
}

void SidecarLink::Joined(const std::string& job, std::function<void()> between_looks) {
  job_ = job;
  between_looks_ = std::move(between_looks);
  sidecar_->socket().LookBeforeSleep(between_looks_);
}

Result SidecarLink::CheckUsable() const {
  if (getpid() != owner_) {
    return {MONSOON_FAILED_PRECONDITION,
            "this replica was joined by process " + std::to_string(owner_) + ", and this is " +
                std::to_string(getpid()) + ", a fork of it: join after the fork"};
  }
  if (left_) {
    return {MONSOON_CANCELLED, "this replica has left its job"};
  }
  return {};
}

Result SidecarLink::Leave() {
  if (getpid() != owner_) {
    return CheckUsable();
  }
  if (left_) {
    return {};
  }
  left_ = true;
  sidecar_->TellToLeave();
  if (!sidecar_->AwaitEnd(kLeaveTimeoutMs)) {
    return {MONSOON_DEADLINE_EXCEEDED,
            "the sidecar (pid " + std::to_string(sidecar_->pid()) +
                ") did not end within 20 seconds and is killed; the coordinator finds out by "
                "silence"};
  }
  return {};
}

// ---- requests and answers ----------------------------------------------------------

Result SidecarLink::Break(monsoon_code code, std::string message) {
  broken_ = {code, std::move(message)};
  return broken_;
}

Result SidecarLink::Ask(MessageKind kind, const FieldWriter& fields) {
  asked_ = true;
  asked_for_ = kind;
  return sidecar_->socket().Send(kind, fields.bytes()) ? Result() : Restart();
}

Result SidecarLink::Await(Message* answer) {
  while (true) {
    Result next;
    switch (sidecar_->socket().Receive(/*timeout_ms=*/-1, answer)) {
      case MessageSocket::Outcome::kDone:
        if (joins_again_) {
          next = BeginAgain(*answer);
          break;
        }
        asked_ = false;
        return {};
      case MessageSocket::Outcome::kInterrupted:
        return {MONSOON_INTERRUPTED, "interrupted by a signal"};
      case MessageSocket::Outcome::kMalformed:
        return Break(MONSOON_INTERNAL, "the sidecar's answer is malformed");
      default:
        next = Restart();
    }
    if (!next.ok()) {
      return next;
    }
  }
}

bool SidecarLink::TakeRestarted() { return std::exchange(restarted_, false); }

// ---- sidecars that die -------------------------------------------------------------

std::string SidecarLink::HowSidecarEnded() {
  const bool ended = sidecar_->AwaitEnd(kEndTimeoutMs);
  std::string how = "the sidecar (pid " + std::to_string(sidecar_->pid()) + ") " +
                    (ended ? sidecar_->HowItEnded() : "closed its socket");
  sidecar_->Kill();  // the memory is its successor's now
  return how;
}

Result SidecarLink::SidecarIsGone() {
  return Break(MONSOON_UNAVAILABLE, HowSidecarEnded() + "; its log says more. Join again to go on");
}

Result SidecarLink::Restart() {
  // First: it may still write to the memory that its successor gets.
  const std::string how = HowSidecarEnded();
  if (++restarts_ > kMostRestarts) {
    return Break(MONSOON_UNAVAILABLE,
                 how + ", as did the " + std::to_string(kMostRestarts) +
                     " before it, without a step between. Its log says more, and the kernel's "
                     "(dmesg) if memory ran out. Join again to go on");
  }
  std::string error;
  auto next = SidecarProcess::Start(start_.executable, start_.log_file, &error);
  if (next == nullptr) {
    return Break(MONSOON_UNAVAILABLE, how + ", and no other can be started: " + error);
  }
  sidecar_ = std::move(next);
  sidecar_->socket().LookBeforeSleep(between_looks_);
  joins_again_ = true;
  restarted_ = true;
  // If this one is gone too, the answer's absence says so.
  (void)sidecar_->socket().Send(MessageKind::kJoin, JoinFields(how), memory_);
  return {};
}

Result SidecarLink::BeginAgain(const Message& joined) {
  joins_again_ = false;
  FieldReader fields(joined.fields);
  if (joined.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return Break(code, "its sidecar died, and a new one cannot enter " + job_ +
                           " again: " + fields.String());
  }
  if (joined.kind != MessageKind::kJoined) {
    return Break(MONSOON_INTERNAL, "the new sidecar's answer is malformed");
  }
  (void)sidecar_->socket().Send(MessageKind::kBegin, "");
  return {};
}

}  // namespace monsoon
