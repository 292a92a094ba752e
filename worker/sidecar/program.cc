#include "worker/sidecar/program.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/virtual_threads.h"

namespace monsoon {
namespace {

constexpr absl::Duration kVirtualLook = absl::Milliseconds(1);

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))), 0, 1 << 30));
}

// As poll. A virtual thread may not block the kernel's, and looks again and again.
void Poll(pollfd* watched, nfds_t count, absl::Duration timeout) {
  VirtualThreads* const threads = VirtualThreads::Current();
  if (threads == nullptr) {
    poll(watched, count, Milliseconds(timeout));
    return;
  }
  const absl::Duration end = threads->Now() + timeout;
  while (poll(watched, count, 0) == 0 && threads->Now() < end) {
    threads->Park(nullptr, std::min(kVirtualLook, end - threads->Now()));
  }
}

}  // namespace

Program::Program(int socket, UniqueFd leave, UniqueFd life)
    : socket_(socket), leave_(std::move(leave)), life_(std::move(life)) {}

absl::StatusOr<std::unique_ptr<Program>> Program::Open(int socket, int leave) {
  const pid_t parent = getppid();
  UniqueFd life(static_cast<int>(syscall(SYS_pidfd_open, parent, 0)));
  if (life.get() < 0 || getppid() != parent) {
    return absl::FailedPreconditionError(
        absl::StrCat("the program that started this sidecar is gone: ", strerror(errno)));
  }
  return std::unique_ptr<Program>(new Program(socket, UniqueFd(leave), std::move(life)));
}

bool Program::AwaitLeave(absl::Duration timeout, int wake) const {
  pollfd watched[3] = {{leave_.get(), POLLIN, 0}, {life_.get(), POLLIN, 0}, {wake, POLLIN, 0}};
  Poll(watched, wake < 0 ? 2 : 3, timeout);
  return watched[0].revents != 0 || watched[1].revents != 0;
}

absl::StatusOr<const Message*> Program::AwaitCall(absl::Duration timeout) {
  if (call_) {
    return &*call_;
  }
  // What has arrived needs no readable socket.
  Message message;
  int passed = -1;
  MessageSocket::Outcome outcome = socket_.Receive(0, &message, &passed);
  if (outcome == MessageSocket::Outcome::kTimeout) {
    if (AwaitLeave(timeout, socket_.fd())) {
      return absl::CancelledError("the program leaves");
    }
    outcome = socket_.Receive(0, &message, &passed);
  }
  switch (outcome) {
    case MessageSocket::Outcome::kDone:
      call_ = std::move(message);
      passed_ = UniqueFd(passed);
      return &*call_;
    case MessageSocket::Outcome::kTimeout:
    case MessageSocket::Outcome::kInterrupted:
      return nullptr;
    case MessageSocket::Outcome::kClosed:
      return absl::CancelledError("the program has closed its socket");
    case MessageSocket::Outcome::kMalformed:
      break;
  }
  return absl::InvalidArgumentError("the program's message is over 8 MiB");
}

void Program::SetParameters(std::span<const float> parameters) {
  CHECK(call_.has_value());
  std::ranges::copy(parameters, memory_->parameters().begin());
}

void Program::Answer(uint32_t event_kind, bool parameters_changed, const std::string& batches) {
  CHECK(call_.has_value());
  EventFigures figures = figures_ ? figures_() : EventFigures();
  figures.kind = event_kind;
  figures.discarded = std::exchange(discards_, false) ? 1 : 0;
  figures.parameters_changed = parameters_changed ? 1 : 0;
  FieldWriter fields;
  figures.Write(&fields);
  if (batches.empty()) {
    fields.Number(uint32_t{0});
  } else {
    fields.Bytes(batches.data(), batches.size());
  }
  call_.reset();
  if (!socket_.Send(MessageKind::kEvent, fields.bytes())) {
    LOG(WARNING) << "the program takes no answer";  // its end is noticed apart
  }
}

void Program::AnswerRows(std::span<const float> values) {
  CHECK(call_.has_value() && call_->kind == MessageKind::kFetchRows);
  call_.reset();
  if (!socket_.Send(MessageKind::kRows,
                    {reinterpret_cast<const char*>(values.data()), values.size_bytes()})) {
    LOG(WARNING) << "the program takes no answer";
  }
}

void Program::AnswerStream(const std::string& fields) {
  CHECK(call_.has_value() && call_->kind == MessageKind::kTakeStream);
  call_.reset();
  if (!socket_.Send(MessageKind::kStream, fields)) {
    LOG(WARNING) << "the program takes no answer";
  }
}

void Program::Refuse(const absl::Status& status) {
  CHECK(call_.has_value());
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(status.code()));
  fields.String(std::string(status.message()));
  call_.reset();
  if (!socket_.Send(MessageKind::kError, fields.bytes())) {
    LOG(WARNING) << "the program takes no answer";
  }
}

void Program::AnswerJoin(const std::string& fields, std::unique_ptr<ProgramMemory> memory) {
  CHECK(call_.has_value() && call_->kind == MessageKind::kJoin);
  memory_ = std::move(memory);
  call_.reset();
  if (!socket_.Send(MessageKind::kJoined, fields, memory_->fd())) {
    LOG(WARNING) << "the program takes no answer";
  }
}

}  // namespace monsoon
