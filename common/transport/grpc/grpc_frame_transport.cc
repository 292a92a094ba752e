#include "common/transport/grpc/grpc_frame_transport.h"

// FrameTransport over gRPC's asynchronous streams, driven by the thread that
// calls Wait.
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/memory/recycler.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/grpc/byte_buffer.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/frame_method.h"
#include "common/transport/grpc/shared_queue.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/generic/generic_stub.h"

namespace monsoon {
namespace {

// As many as a busy stream has: those that wait for an answer, and one on its way.
constexpr size_t kIdleMessages = 3;
// Between two looks at streams that were cancelled.
constexpr absl::Duration kCancellation = absl::Seconds(1);

// A server that has refused a connection is not asked for several meanwhile.
constexpr absl::Duration kRefused = absl::Seconds(10);

// A payload from here on is not copied behind its head.
constexpr size_t kLeastApart = 16 * 1024;

struct Message {
  std::shared_ptr<const std::string> bytes;  // the head, and the payload if it is not apart
  std::shared_ptr<const void> owner;         // of `payload`; null: it is not apart
  ByteChunk payload;
};

// One stream. Lives until all its operations have come back.
struct Stream {
  enum class Op { kStart, kRead, kWrite, kFinish };
  struct Tag : SharedQueue::Operation {
    Stream* stream;
    Op op;
  };

  Stream(uint32_t peer, uint32_t connection, SharedQueue::Port* port)
      : peer(peer), connection(connection), port(port) {}

  const uint32_t peer;
  const uint32_t connection;
  SharedQueue::Port* const port;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  Tag start{{port}, this, Op::kStart}, read{{port}, this, Op::kRead},
      write{{port}, this, Op::kWrite}, finish{{port}, this, Op::kFinish};
  int outstanding = 0;  // operations that have not come back
  bool started = false;
  bool writing = false;
  bool failed = false;     // an operation failed; Finish follows
  bool abandoned = false;  // by Reset: no events
  bool finishing = false;
  std::deque<Message> queue;
  grpc::ByteBuffer incoming;
  grpc::Status status;
};

class GrpcTransport final : public GrpcFrameTransport {
 public:
  GrpcTransport(const std::vector<std::string>& addresses, const std::shared_ptr<Tls>& tls,
                uint32_t connections, Role server)
      : addresses_(addresses), tls_(tls), server_(server), peers_(addresses.size()) {
    for (Peer& peer : peers_) {
      peer.connections.resize(connections);
    }
  }

  ~GrpcTransport() override {
    for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
      Reset(peer);
    }
    // Cancelled operations come back at once.
    while (!streams_.empty()) {
      if (const auto completion = queue_->Next(&port_, kCancellation)) {
        Handle(*completion);
      }
    }
  }

  uint32_t Connections(uint32_t peer) override {
    const bool refused = Clock::Real()->Now() < peers_[peer].refused_until;
    return refused ? 1 : static_cast<uint32_t>(peers_[peer].connections.size());
  }

  void Send(uint32_t peer, Frame frame) override {
    Stream*& stream = peers_[peer].connections[frame.connection].stream;
    if (stream == nullptr) {
      stream = Open(peer, frame.connection);
    }
    // The message owns its bytes: a stream that was given up may still hold it.
    std::shared_ptr<std::string> bytes = messages_.Take();
    bytes->clear();
    const bool apart = frame.keep.owner != nullptr && frame.payload.size() >= kLeastApart;
    bytes->reserve(apart ? frame.head->size() : frame.size());
    bytes->append(*frame.head);
    Message message;
    if (apart) {
      if (!std::exchange(*frame.keep.copied, true)) {
        std::memcpy(frame.keep.at, frame.payload.data(), frame.payload.size());
      }
      message.payload = {frame.keep.at, frame.payload.size()};
      message.owner = std::move(frame.keep.owner);
    } else {
      bytes->append(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
    }
    message.bytes = std::move(bytes);
    stream->queue.push_back(std::move(message));
    WriteNext(stream);
  }

  Event Wait(absl::Duration timeout) override {
    received_.reset();
    const absl::Duration end = Clock::Real()->Now() + timeout;
    while (const auto completion = queue_->Next(&port_, end - Clock::Real()->Now())) {
      if (std::optional<Event> event = Handle(*completion)) {
        return *std::move(event);
      }
    }
    return Event{};
  }

  void Wake() override { queue_->Wake(&port_); }

  void Reset(uint32_t peer) override {
    for (uint32_t connection = 0; connection < peers_[peer].connections.size(); ++connection) {
      ResetConnection(peer, connection);
    }
  }

  void ResetConnection(uint32_t peer, uint32_t connection) override {
    Stream* stream = std::exchange(peers_[peer].connections[connection].stream, nullptr);
    if (stream == nullptr) {
      return;
    }
    stream->abandoned = true;
    stream->failed = true;
    stream->context.TryCancel();
    FinishIfIdle(stream);
  }

 private:
  struct Connection {
    std::unique_ptr<grpc::GenericStub> stub;  // null: never used
    Stream* stream = nullptr;                 // the one that there is now
  };
  struct Peer {
    std::vector<Connection> connections;
    absl::Duration refused_until;  // on the steady clock
  };

  Stream* Open(uint32_t peer, uint32_t connection) {
    std::unique_ptr<grpc::GenericStub>& stub = peers_[peer].connections[connection].stub;
    if (stub == nullptr) {
      stub = std::make_unique<grpc::GenericStub>(MakeChannel(addresses_[peer], tls_, server_));
    }
    streams_.push_back(std::make_unique<Stream>(peer, connection, &port_));
    Stream* stream = streams_.back().get();
    stream->call = stub->PrepareCall(&stream->context, kFrameMethod, queue_->queue());
    ++stream->outstanding;
    stream->call->StartCall(&stream->start);
    return stream;
  }

  void WriteNext(Stream* stream) {
    if (!stream->started || stream->writing || stream->failed || stream->queue.empty()) {
      return;
    }
    const Message message = std::move(stream->queue.front());
    stream->queue.pop_front();
    const grpc::Slice slices[] = {
        MakeSlice(message.bytes, message.bytes->data(), message.bytes->size()),
        message.owner == nullptr
            ? grpc::Slice()
            : MakeSlice(message.owner, message.payload.data(), message.payload.size())};
    const size_t count = message.owner == nullptr ? 1 : 2;
    stream->writing = true;
    ++stream->outstanding;
    queue_->Start([&] { stream->call->Write(grpc::ByteBuffer(slices, count), &stream->write); });
  }

  void ReadNext(Stream* stream) {
    ++stream->outstanding;
    stream->call->Read(&stream->incoming, &stream->read);
  }

  // Asks for the status once nothing else is outstanding.
  void FinishIfIdle(Stream* stream) {
    if (stream->failed && stream->outstanding == 0 && !stream->finishing) {
      stream->finishing = true;
      ++stream->outstanding;
      stream->call->Finish(&stream->status, &stream->finish);
    }
  }

  // Takes one operation that has come back; an event if it is worth one.
  std::optional<Event> Handle(const SharedQueue::Completion& completion) {
    auto* const tag = static_cast<Stream::Tag*>(completion.operation);
    const bool ok = completion.ok;
    Stream* stream = tag->stream;
    --stream->outstanding;
    if (tag->op == Stream::Op::kFinish) {
      return Finished(stream);
    }
    if (!ok) {
      stream->failed = true;
    }
    std::optional<Event> event;
    if (!stream->failed) {
      switch (tag->op) {
        case Stream::Op::kStart:
          stream->started = true;
          ReadNext(stream);
          WriteNext(stream);
          break;
        case Stream::Op::kWrite:
          stream->writing = false;
          WriteNext(stream);
          break;
        case Stream::Op::kRead:
          received_.emplace(&stream->incoming);
          event.emplace();
          event->kind = Event::Kind::kReceived;
          event->peer = stream->peer;
          event->connection = stream->connection;
          event->frame = received_->chunks();
          ReadNext(stream);
          break;
        case Stream::Op::kFinish:
          break;
      }
    }
    FinishIfIdle(stream);
    return event;
  }

  std::optional<Event> Finished(Stream* stream) {
    std::optional<Event> event;
    if (!stream->abandoned) {
      Peer& peer = peers_[stream->peer];
      peer.connections[stream->connection].stream = nullptr;
      if (stream->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
        peer.refused_until = Clock::Real()->Now() + kRefused;
      }
      event.emplace();
      event->kind = Event::Kind::kBroken;
      event->peer = stream->peer;
      event->connection = stream->connection;
      event->status = FromGrpcStatus(stream->status);
      if (event->status.ok()) {
        event->status = absl::UnavailableError("the server closed the stream");
      }
    }
    streams_.remove_if([stream](const auto& owned) { return owned.get() == stream; });
    return event;
  }

  const std::shared_ptr<SharedQueue> queue_ = SharedQueue::Get();
  SharedQueue::Port port_;
  Recycler<std::string> messages_{kIdleMessages};
  const std::vector<std::string> addresses_;
  const std::shared_ptr<Tls> tls_;
  const Role server_;
  std::vector<Peer> peers_;
  std::list<std::unique_ptr<Stream>> streams_;  // abandoned ones too
  std::optional<ReceivedFrame> received_;
};

}  // namespace

std::unique_ptr<GrpcFrameTransport> MakeGrpcTransport(const std::vector<std::string>& addresses,
                                                      const std::shared_ptr<Tls>& tls,
                                                      uint32_t connections, Role server) {
  return std::make_unique<GrpcTransport>(addresses, tls, connections, server);
}

}  // namespace monsoon
