#include "common/transport/shm/shm_frame_transport.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/process/unique_fd.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/shm/bell.h"
#include "common/transport/shm/frame_channel.h"
#include "common/transport/shm/memory_file.h"
#include "common/transport/shm/socket_file.h"
#include "common/transport/shm/unix_socket.h"

namespace monsoon {
namespace {

// Who waits looks so often whether the peers are still there: a dead one rings
// no bell.
constexpr absl::Duration kLookForPeers = absl::Milliseconds(20);

struct Stream {
  Stream(UniqueFd socket, MemoryMapping memory, Bell* client_bell)
      : socket(std::move(socket)),
        memory(std::move(memory)),
        channel(FrameChannel::Side::kClient, this->memory.data(), client_bell) {}

  // Not while the sender is busy.
  void Begin(Frame frame) {
    ++unanswered;
    sending = std::move(frame);
    const ByteChunk parts[] = {std::as_bytes(std::span(*sending.head)), sending.payload};
    channel.sender()->Begin(parts);
  }

  const UniqueFd socket;
  const MemoryMapping memory;
  FrameChannel channel;
  Frame sending;            // while the sender is busy
  std::deque<Frame> queue;  // behind it; a deque allocates even when it stays short
  uint32_t unanswered = 0;  // frames; too few where one has several answers
  bool map_asked = false;
  SharedMemoryTransport::Mapping mapping;  // its reader is null where there is none
  bool ended = false;                      // by the peer; what it had written is still to be told
};

struct Answer {
  SharedMemoryReply reply;
  UniqueFd fd;
};

// Sends `request` with the descriptors `fds` and waits for the answer, which has
// one. The peer's refusals are errors.
absl::StatusOr<Answer> Ask(int socket, const SharedMemoryRequest& request, std::span<const int> fds,
                           absl::Duration deadline) {
  RETURN_IF_ERROR(SendSocketMessage(socket, request.SerializeAsString(), fds));
  ASSIGN_OR_RETURN(SocketMessage message, ReceiveSocketMessage(socket, deadline));
  Answer answer;
  if (!answer.reply.ParseFromString(message.bytes)) {
    return absl::InternalError("the peer's answer cannot be parsed");
  }
  RETURN_IF_ERROR(
      absl::Status(static_cast<absl::StatusCode>(answer.reply.code()), answer.reply.message()));
  if (message.fds.size() != 1) {
    return absl::InternalError("the peer's answer has no memory");
  }
  answer.fd = std::move(message.fds[0]);
  return answer;
}

absl::StatusOr<std::unique_ptr<SliceReader>> MapSlice(int socket, const FetchRequest& request,
                                                      SharedShape shape, absl::Duration deadline,
                                                      uint64_t* shard_epoch) {
  SharedMemoryRequest message;
  *message.mutable_map() = request;
  ASSIGN_OR_RETURN(Answer answer, Ask(socket, message, {}, deadline));
  ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::Adopt(std::move(answer.fd), 1));
  *shard_epoch = shape.shard_epoch = answer.reply.shard_epoch();
  return SliceReader::Open(file, shape, {answer.reply.slot(), answer.reply.ticket()});
}

class RingTransport final : public SharedMemoryTransport {
 public:
  RingTransport(uint32_t peers, MemoryFile bell_file, MemoryMapping bell_memory)
      : bell_file_(std::move(bell_file)),
        bell_memory_(std::move(bell_memory)),
        bell_(reinterpret_cast<Bell*>(bell_memory_.data())),
        streams_(peers) {}

  absl::Status Connect(uint32_t peer, const SharedMemoryOffer& offer,
                       absl::Duration deadline) override {
    Reset(peer);
    ASSIGN_OR_RETURN(UniqueFd socket, ConnectToOffer(offer));
    SharedMemoryRequest hello;
    hello.mutable_hello()->set_protocol_version(kProtocolVersion);
    const int bell_fd = bell_file_.fd();
    ASSIGN_OR_RETURN(Answer answer, Ask(socket.get(), hello, {&bell_fd, 1}, deadline));
    ASSIGN_OR_RETURN(const MemoryFile file,
                     MemoryFile::Adopt(std::move(answer.fd), FrameChannel::kMemoryBytes));
    ASSIGN_OR_RETURN(MemoryMapping memory, file.Map(MemoryFile::Access::kReadWrite));
    streams_[peer] = std::make_unique<Stream>(std::move(socket), std::move(memory), bell_);
    return absl::OkStatus();
  }

  void Wake() override {
    woken_ = true;
    Ring(bell_);
  }

  bool connected(uint32_t peer) const override { return streams_[peer] != nullptr; }

  const Mapping* Map(uint32_t peer, const FetchRequest& request, const SharedShape& shape,
                     absl::Duration deadline) override {
    Stream* stream = streams_[peer].get();
    if (stream == nullptr || stream->ended) {
      return nullptr;
    }
    Mapping* mapping = &stream->mapping;
    if (!std::exchange(stream->map_asked, true)) {
      absl::StatusOr<std::unique_ptr<SliceReader>> reader =
          MapSlice(stream->socket.get(), request, shape, deadline, &mapping->shard_epoch);
      if (reader.ok()) {
        mapping->reader = *std::move(reader);
        mapping->counts =
            reinterpret_cast<ReadCounts*>(stream->memory.data() + FrameChannel::kUserOffset);
      }
    }
    return mapping->reader == nullptr ? nullptr : mapping;
  }

  const Mapping* mapped(uint32_t peer) const override {
    const Stream* stream = streams_[peer].get();
    return stream == nullptr || stream->ended || stream->mapping.reader == nullptr
               ? nullptr
               : &stream->mapping;
  }

  bool Alive(uint32_t peer) override {
    Stream* stream = streams_[peer].get();
    if (stream != nullptr && !stream->ended) {
      stream->ended = !IsConnected(stream->socket.get());
    }
    return stream != nullptr && !stream->ended;
  }

  void Send(uint32_t peer, Frame frame) override {
    Stream* stream = streams_[peer].get();
    if (stream == nullptr) {
      Break(peer, absl::UnavailableError("no shared-memory connection"));
      return;
    }
    stream->ended = !IsConnected(stream->socket.get());
    if (stream->queue.empty() && !stream->channel.sender()->busy()) {
      stream->Begin(std::move(frame));
    } else {
      stream->queue.push_back(std::move(frame));
    }
  }

  Event Wait(absl::Duration timeout) override {
    std::optional<Event> event;
    const auto happened = [&] {
      event = Advance();
      if (!event.has_value() && woken_.exchange(false)) {
        event.emplace();
      }
      return event.has_value();
    };
    const absl::Duration end = Clock::Real()->Now() + timeout;
    while (true) {
      const absl::Duration left = std::max(absl::ZeroDuration(), end - Clock::Real()->Now());
      if (WaitForBell(bell_, &spin_, std::min(left, kLookForPeers), happened)) {
        return *std::move(event);
      }
      LookForPeers();
      if (happened()) {
        return *std::move(event);
      }
      if (left <= kLookForPeers) {
        return Event{};
      }
    }
  }

  void Reset(uint32_t peer) override {
    streams_[peer] = nullptr;
    std::erase_if(broken_, [peer](const Event& event) { return event.peer == peer; });
  }

 private:
  // The next event, if there is one; moves all streams on until then.
  std::optional<Event> Advance() {
    for (size_t i = 0; i < streams_.size(); ++i) {
      const uint32_t peer = next_;
      next_ = (next_ + 1) % static_cast<uint32_t>(streams_.size());
      if (Stream* stream = streams_[peer].get()) {
        const absl::StatusOr<bool> received = AdvanceStream(stream);
        if (!received.ok()) {
          Break(peer, absl::UnavailableError(received.status().message()));
        } else if (*received) {
          frame_ = stream->channel.receiver()->frame();
          Event event;
          event.kind = Event::Kind::kReceived;
          event.peer = peer;
          event.frame = {&frame_, 1};
          return event;
        } else if (stream->ended) {
          Break(peer, absl::UnavailableError("the peer closed the shared-memory connection"));
        }
      }
    }
    if (!broken_.empty()) {
      Event event = std::move(broken_.front());
      broken_.pop_front();
      return event;
    }
    return std::nullopt;
  }

  // True: a frame has come.
  static absl::StatusOr<bool> AdvanceStream(Stream* stream) {
    FrameSender* sender = stream->channel.sender();
    while (sender->busy() || !stream->queue.empty()) {
      if (!sender->busy()) {
        Frame next = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->Begin(std::move(next));
      }
      // Of several frames the peer serves one while the next is written.
      sender->TellOfWholeFrames(stream->unanswered <= 1 && stream->queue.empty());
      RETURN_IF_ERROR(sender->Continue());
      if (sender->busy()) {
        break;
      }
      stream->sending = {};
    }
    ASSIGN_OR_RETURN(const bool received, stream->channel.receiver()->Continue());
    stream->unanswered -= received && stream->unanswered > 0 ? 1 : 0;
    return received;
  }

  void LookForPeers() {
    for (const std::unique_ptr<Stream>& stream : streams_) {
      if (stream != nullptr) {
        stream->ended = !IsConnected(stream->socket.get());
      }
    }
  }

  void Break(uint32_t peer, absl::Status status) {
    streams_[peer] = nullptr;
    Event event;
    event.kind = Event::Kind::kBroken;
    event.peer = peer;
    event.status = std::move(status);
    broken_.push_back(std::move(event));
  }

  const MemoryFile bell_file_;
  const MemoryMapping bell_memory_;
  Bell* const bell_;
  SpinHabit spin_;
  std::atomic<bool> woken_{false};
  std::vector<std::unique_ptr<Stream>> streams_;  // per peer, or null
  uint32_t next_ = 0;                             // whose turn it is
  std::deque<Event> broken_;                      // to be told
  ByteChunk frame_;                               // of the last event
};

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemoryTransport>> SharedMemoryTransport::Create(
    uint32_t peers) {
  ASSIGN_OR_RETURN(MemoryFile file, MemoryFile::Create("monsoon-bell", sizeof(Bell)));
  ASSIGN_OR_RETURN(MemoryMapping memory, file.Map(MemoryFile::Access::kReadWrite));
  return std::make_unique<RingTransport>(peers, std::move(file), std::move(memory));
}

}  // namespace monsoon
