#include "ps_server/shm_connection.h"

#include <sys/socket.h>

#include <string>
#include <utility>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/shm/bell.h"

namespace monsoon {
namespace {

// Waits end with the bell; so often they look around without it.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

// The answers of one connection, into its ring.
class RingAnswers final : public FrameServer::Writer {
 public:
  RingAnswers(FrameSender* sender, Bell* bell, const std::atomic<bool>* stopping)
      : sender_(sender), bell_(bell), stopping_(stopping) {}

  bool Write(std::string head, FramePayload payload) override {
    const ByteChunk parts[] = {
        std::as_bytes(std::span(head)),
        payload.floats == nullptr ? ByteChunk()
                                  : std::as_bytes(payload.floats->span()).first(payload.bytes),
    };
    sender_->Begin(parts);
    absl::Status status;
    const auto written = [&] {
      status = sender_->Continue();
      return !status.ok() || !sender_->busy() || *stopping_;
    };
    while (!WaitForBell(bell_, kLongestWait, written)) {
    }
    return status.ok() && !sender_->busy();
  }

 private:
  FrameSender* const sender_;
  Bell* const bell_;
  const std::atomic<bool>* const stopping_;
};

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
    return !complete.ok() || *complete || stopping_;
  };
  while (!WaitForBell(server_bell_, kLongestWait, received)) {
  }
  if (!complete.ok()) {
    LOG(WARNING) << "a client on this host was dropped: " << complete.status().message();
  }
  return complete.value_or(false);
}

void ShmConnection::Serve() {
  FrameChannel channel(FrameChannel::Side::kServer, memory_->data(), client_bell_);
  RingAnswers answers(channel.sender(), server_bell_, &stopping_);
  AlignedFloats scratch;
  while (!stopping_ && Receive(channel.receiver())) {
    const ByteChunk frame = channel.receiver()->frame();
    if (frames_->Serve({&frame, 1}, &scratch, &answers) != FrameServer::Outcome::kServed) {
      break;
    }
  }
  // The client notices, and so does the thread that owns the connection.
  shutdown(socket_, SHUT_RDWR);
  Ring(client_bell_);
}

}  // namespace monsoon
