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

  Stream(uint32_t peer, SharedQueue::Port* port) : peer(peer), port(port) {}

  const uint32_t peer;
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

class GrpcTransport final : public FrameTransport {
 public:
  GrpcTransport(const std::vector<std::string>& addresses, const std::shared_ptr<Tls>& tls)
      : current_(addresses.size(), nullptr) {
    for (const std::string& address : addresses) {
      stubs_.push_back(std::make_unique<grpc::GenericStub>(MakeChannel(address, tls, Role::kPs)));
    }
  }

  ~GrpcTransport() override {
    for (uint32_t peer = 0; peer < current_.size(); ++peer) {
      Reset(peer);
    }
    // Cancelled operations come back at once.
    while (!streams_.empty()) {
      if (const auto completion = queue_->Next(&port_, kCancellation)) {
        Handle(*completion);
      }
    }
  }

  void Send(uint32_t peer, Frame frame) override {
    if (current_[peer] == nullptr) {
      Open(peer);
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
    current_[peer]->queue.push_back(std::move(message));
    WriteNext(current_[peer]);
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

  void Reset(uint32_t peer) override {
    Stream* stream = std::exchange(current_[peer], nullptr);
    if (stream == nullptr) {
      return;
    }
    stream->abandoned = true;
    stream->failed = true;
    stream->context.TryCancel();
    FinishIfIdle(stream);
  }

 private:
  void Open(uint32_t peer) {
    streams_.push_back(std::make_unique<Stream>(peer, &port_));
    Stream* stream = streams_.back().get();
    current_[peer] = stream;
    stream->call = stubs_[peer]->PrepareCall(&stream->context, kFrameMethod, queue_->queue());
    ++stream->outstanding;
    stream->call->StartCall(&stream->start);
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
      current_[stream->peer] = nullptr;
      event.emplace();
      event->kind = Event::Kind::kBroken;
      event->peer = stream->peer;
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
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::list<std::unique_ptr<Stream>> streams_;  // abandoned ones too
  std::vector<Stream*> current_;                // per peer, or null
  std::optional<ReceivedFrame> received_;
};

}  // namespace

std::unique_ptr<FrameTransport> MakeGrpcTransport(const std::vector<std::string>& addresses,
                                                  const std::shared_ptr<Tls>& tls) {
  return std::make_unique<GrpcTransport>(addresses, tls);
}

}  // namespace monsoon
