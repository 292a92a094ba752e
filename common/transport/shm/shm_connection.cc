#include "common/transport/shm/shm_connection.h"

#include <sys/socket.h>

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/transport/frame/in_flight.h"
#include "common/transport/shm/bell.h"

namespace monsoon {
namespace {

// Waits end with the bell; so often they look around without it.
constexpr absl::Duration kLongestWait = absl::Seconds(1);
// For a client to take one frame. One that is stopped must not hold a request, for
// which a draining server waits.
constexpr absl::Duration kSendTimeout = absl::Seconds(15);

}  // namespace

absl::StatusOr<std::unique_ptr<ShmConnection>> ShmConnection::Start(
    int socket, UniqueFd bell_fd, FrameServer::Admission admission, FrameServer* frames) {
  ASSIGN_OR_RETURN(const MemoryFile bell_file, MemoryFile::Adopt(std::move(bell_fd), sizeof(Bell)));
  ASSIGN_OR_RETURN(MemoryMapping bell, bell_file.Map(MemoryFile::Access::kReadWrite));
  ASSIGN_OR_RETURN(MemoryFile file,
                   MemoryFile::Create("monsoon-connection", FrameChannel::kMemoryBytes));
  ASSIGN_OR_RETURN(MemoryMapping memory, file.Map(MemoryFile::Access::kReadWrite));
  return std::unique_ptr<ShmConnection>(new ShmConnection(
      socket, std::move(admission), frames, std::move(file), std::move(memory), std::move(bell)));
}

ShmConnection::ShmConnection(int socket, FrameServer::Admission admission, FrameServer* frames,
                             MemoryFile file, MemoryMapping memory, MemoryMapping bell)
    : socket_(socket),
      admission_(std::move(admission)),
      frames_(frames),
      file_(std::move(file)),
      memory_(std::make_shared<MemoryMapping>(std::move(memory))),
      bell_memory_(std::move(bell)),
      client_bell_(reinterpret_cast<Bell*>(bell_memory_.data())),
      server_bell_(FrameChannel::server_bell(memory_->data())),
      thread_([this] { Serve(); }) {}

ShmConnection::~ShmConnection() {
  stopping_ = true;
  Ring(server_bell_);
  thread_.join();
}

std::shared_ptr<const ReadCounts> ShmConnection::read_counts() const {
  return {memory_,
          reinterpret_cast<const ReadCounts*>(memory_->data() + FrameChannel::kUserOffset)};
}

bool ShmConnection::Receive(FrameReceiver* receiver) {
  absl::StatusOr<bool> complete = false;
  const auto received = [&] {
    complete = receiver->Continue();
    return !complete.ok() || *complete || ends();
  };
  while (!WaitForBell(server_bell_, &spin_, kLongestWait, received)) {
  }
  if (!complete.ok()) {
    LOG(WARNING) << "a client on this host was dropped: " << complete.status().message();
  }
  return complete.value_or(false);
}

bool ShmConnection::Send(const FrameCall::Answer& answer, FrameSender* sender) {
  const FramePayload& payload = answer.payload;
  const ByteChunk parts[] = {
      std::as_bytes(std::span(answer.head)),
      payload.floats == nullptr ? ByteChunk()
                                : std::as_bytes(payload.floats->span()).first(payload.bytes),
  };
  sender->Begin(parts);
  absl::Status status;
  const auto written = [&] {
    status = sender->Continue();
    return !status.ok() || !sender->busy() || ends();
  };
  const absl::Duration end = Clock::Real()->Now() + kSendTimeout;
  while (!WaitForBell(server_bell_, &spin_, kLongestWait, written)) {
    if (Clock::Real()->Now() > end) {
      LOG(WARNING) << "a client on this host was dropped: it took no answer for "
                   << absl::FormatDuration(kSendTimeout);
      return false;
    }
  }
  return status.ok() && !sender->busy();
}

bool ShmConnection::ServeFrame(FrameChannel* channel, FrameScratch* scratch) {
  const InFlight::Scope scope(frames_->in_flight());
  FrameCall call(frames_);
  absl::SleepFor(call.delay());
  const ByteChunk frame = channel->receiver()->frame();
  if (!call.Serve({&frame, 1}, scratch, channel->receiver()->finite_payload())) {
    return false;
  }
  while (const std::optional<FrameCall::Answer> answer = call.NextAnswer()) {
    if (!Send(*answer, channel->sender())) {
      return false;
    }
    frames_->budget()->NoteProgress(this, Clock::Real()->Now());
  }
  return true;
}

void ShmConnection::Granted() {
  granted_ = true;
  Ring(server_bell_);
}

void ShmConnection::GiveWay(bool stuck) {
  (stuck ? cut_off_ : give_way_) = true;
  Ring(server_bell_);
}

bool ShmConnection::TakeTurn() {
  granted_ = false;
  has_turn_ = true;
  if (frames_->budget()->Ask(this, Clock::Real()->Now())) {
    return true;
  }
  while (!WaitForBell(server_bell_, &spin_, kLongestWait, [this] { return granted_ || ends(); })) {
  }
  return !ends();
}

void ShmConnection::LeaveTurn(FrameReceiver* receiver, FrameScratch* scratch) {
  receiver->ReleaseMemory();
  scratch->Release();
  has_turn_ = false;
  frames_->budget()->Leave(this, Clock::Real()->Now());
  give_way_ = false;  // nobody asks any more
}

bool ShmConnection::AwaitTurn(FrameReceiver* receiver, FrameScratch* scratch) {
  const auto happened = [&] { return receiver->begun() || give_way_ || ends(); };
  while (!ends()) {
    if (!WaitForBell(server_bell_, &spin_, kLongestWait, happened)) {
      continue;
    }
    if (has_turn_ && give_way_) {
      LeaveTurn(receiver, scratch);
    } else if (receiver->begun()) {
      if (!has_turn_ && !TakeTurn()) {
        return false;
      }
      if (frames_->budget()->NoteBusy(this, Clock::Real()->Now())) {
        return true;
      }
      LeaveTurn(receiver, scratch);  // it was long; the frame waits in the ring
    }
  }
  return false;
}

void ShmConnection::ServeFrames() {
  FrameChannel channel(FrameChannel::Side::kServer, memory_->data(), client_bell_);
  channel.receiver()->LookForFinite();
  FrameScratch scratch;
  while (AwaitTurn(channel.receiver(), &scratch) && Receive(channel.receiver()) &&
         ServeFrame(&channel, &scratch)) {
    if (!frames_->budget()->NoteIdle(this, Clock::Real()->Now())) {
      LeaveTurn(channel.receiver(), &scratch);
    }
  }
}

void ShmConnection::Serve() {
  ServeFrames();
  frames_->budget()->Leave(this, Clock::Real()->Now());  // its memory is free
  // The client notices, and so does the thread that owns the connection.
  shutdown(socket_, SHUT_RDWR);
  Ring(client_bell_);
}

}  // namespace monsoon
