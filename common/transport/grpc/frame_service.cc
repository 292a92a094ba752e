#include "common/transport/grpc/frame_service.h"

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/security/caller.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/in_flight.h"
#include "common/transport/frame/message_budget.h"
#include "common/transport/grpc/byte_buffer.h"
#include "common/transport/grpc/frame_method.h"
#include "common/transport/grpc/queue_threads.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"
#include "grpcpp/support/byte_buffer.h"

namespace monsoon {
namespace {

using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;
using RawStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// So many streams may be opened at once before a thread of the queue looks.
constexpr unsigned kAwaitedStreams = 8;

// The server's shutdown has cancelled all calls; a delay of --fault may go on.
constexpr absl::Duration kStopWarning = absl::Seconds(10);

// The client opens a new stream at once if it waits for an answer (exchange.h).
grpc::Status GaveWay() {
  return grpc::Status(grpc::StatusCode::ABORTED, "the stream gave way to others; open it anew");
}

grpc::Status Lost() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost by --fault"); }

// The answer as a message that owns its memory.
grpc::ByteBuffer MakeMessage(FrameCall::Answer answer) {
  grpc::Slice slices[2] = {grpc::Slice(answer.head)};
  FramePayload& payload = answer.payload;
  if (payload.floats == nullptr) {
    return grpc::ByteBuffer(slices, 1);
  }
  const float* data = payload.floats->data();
  slices[1] = MakeSlice(std::move(payload.floats), data, payload.bytes);
  return grpc::ByteBuffer(slices, 2);
}

class AsyncService final : public grpc::Service {
 public:
  AsyncService() {
    // Its messages are raw frames, which a .proto file cannot say.
    AddMethod(new RpcServiceMethod(kFrameMethod, RpcMethod::BIDI_STREAMING, /*handler=*/nullptr));
    MarkMethodRaw(0);
  }

  void Request(grpc::ServerContext* context, RawStream* stream, grpc::ServerCompletionQueue* queue,
               void* tag) {
    RequestAsyncBidiStreaming(0, context, stream, queue, queue, tag);
  }
};

// What all streams of a server share.
struct Home {
  AsyncService service;
  FrameServer* frames = nullptr;
  grpc::ServerCompletionQueue* queue = nullptr;
  const Guard* guard = nullptr;
  InFlight streams;
};

// One stream, from before a client comes. Deletes itself after its last
// operation.
//
// Any thread may bring an operation back; while one thread moves the stream on,
// the others leave theirs to it. Only that thread touches what has no lock.
//
// It reads only while it has a turn of the message budget: gRPC may hold a whole
// message for a read. A stream that gives its turn back ends, for a read cannot be
// taken back; its client opens a new one when it has something to say.
class Stream final : public MessageBudget::Holder {
 public:
  enum class Op { kAccept, kTurn, kGiveWay, kRead, kWrite, kDelay, kFinish };

  // `home` outlives this, and counts it until its end.
  explicit Stream(Home* home) : home_(home), counted_(&home->streams), stream_(&context_) {
    ++outstanding_;
    home->service.Request(&context_, &stream_, home->queue, &accept_);
  }

  ~Stream() { home_->frames->budget()->Leave(this, Clock::Real()->Now()); }

  void Granted() override {
    turn_alarm_.Set(home_->queue, gpr_time_0(GPR_CLOCK_MONOTONIC), &turn_);
  }

  // While it is connected and idle, or stuck: a read or a write is outstanding.
  void GiveWay(bool stuck) override {
    stuck_ = stuck_ || stuck;
    ++outstanding_;
    way_alarm_.Set(home_->queue, gpr_time_0(GPR_CLOCK_MONOTONIC), &give_way_);
  }

 private:
  struct Completion {
    Op op;
    bool ok;
  };

  QueueTag TagOf(Op op) {
    return {[this, op](bool ok) { Take(op, ok); }};
  }

  // `op` has come back from the queue.
  void Take(Op op, bool ok) {
    {
      MutexLock lock(&mutex_);
      completions_.push_back({op, ok});
      if (std::exchange(busy_, true)) {
        return;
      }
    }
    while (std::optional<Completion> completion = NextCompletion()) {
      Handle(*completion);
      if (outstanding_ == 0) {
        delete this;
        return;
      }
    }
  }

  std::optional<Completion> NextCompletion() {
    MutexLock lock(&mutex_);
    if (completions_.empty()) {
      busy_ = false;
      return std::nullopt;
    }
    const Completion next = completions_.front();
    completions_.pop_front();
    return next;
  }

  void Handle(Completion completion) {
    --outstanding_;
    switch (completion.op) {
      case Op::kAccept:
        if (completion.ok) {
          Open();
        }
        return;
      case Op::kTurn:
        idle_ = true;
        Read();
        break;
      case Op::kGiveWay:
        if (stuck_) {
          context_.TryCancel();
          End(GaveWay());
        } else if (idle_) {
          End(GaveWay());
        }
        break;
      case Op::kRead:
        (completion.ok ? has_message_ : reading_ended_) = true;
        break;
      case Op::kWrite:
        writing_ = false;
        if (!completion.ok) {
          End(grpc::Status::OK);
        } else if (call_.has_value()) {
          home_->frames->budget()->NoteProgress(this, Clock::Real()->Now());
        }
        break;
      case Op::kDelay:
        delaying_ = false;
        if (!ended_) {
          ServeFrame();
        }
        break;
      case Op::kFinish:
        return;
    }
    Advance();
  }

  void Open() {
    new Stream(home_);  // for the next client
    absl::StatusOr<Caller> caller = home_->guard->Admit(context_, kFrameMethod);
    if (!caller.ok()) {
      End(ToGrpcStatus(caller.status()));
      return;
    }
    const std::string member = QuotaName(*caller);
    scratch_.SetCaller(*std::move(caller));
    absl::StatusOr<FrameServer::Admission> admission =
        home_->frames->Admit(MessageBudget::Kind::kStream, member);
    if (!admission.ok()) {
      End(ToGrpcStatus(admission.status()));
      return;
    }
    admission_.emplace(*std::move(admission));
    ++outstanding_;  // the turn, which may be granted at once by somebody else
    if (home_->frames->budget()->Ask(this, Clock::Real()->Now(), member)) {
      --outstanding_;
      idle_ = true;
      Read();
    }
  }

  // Goes as far as it can without waiting.
  void Advance() {
    while (!ended_) {
      if (ready_.has_value() && !writing_) {
        Write();
      }
      if (ready_.has_value() || delaying_) {
        return;  // one answer is being sent and the next one made: enough
      }
      if (call_.has_value()) {
        ready_ = call_->NextAnswer();
        if (!ready_.has_value()) {
          call_.reset();
        }
      } else if (has_message_) {
        TakeMessage();
      } else {
        if (!writing_) {
          BeIdle();
        }
        return;
      }
    }
  }

  // All that has come is answered.
  void BeIdle() {
    serving_.reset();
    if (reading_ended_) {
      End(grpc::Status::OK);
    } else if (!std::exchange(idle_, true) &&
               !home_->frames->budget()->NoteIdle(this, Clock::Real()->Now())) {
      End(GaveWay());
    }
  }

  void TakeMessage() {
    idle_ = false;
    if (!home_->frames->budget()->NoteBusy(this, Clock::Real()->Now())) {
      End(GaveWay());
      return;
    }
    if (!serving_.has_value()) {
      serving_.emplace(home_->frames->in_flight());
    }
    frame_.emplace(&incoming_);
    has_message_ = false;
    Read();  // the next one arrives while this one is served
    call_.emplace(home_->frames);
    if (call_->delay() > absl::ZeroDuration()) {
      delaying_ = true;
      ++outstanding_;
      alarm_.Set(home_->queue,
                 gpr_time_from_nanos(absl::ToInt64Nanoseconds(call_->delay()), GPR_TIMESPAN),
                 &delay_);
    } else {
      ServeFrame();
    }
  }

  void ServeFrame() {
    if (const absl::Status status = home_->guard->CheckMember(scratch_.caller()); !status.ok()) {
      frame_.reset();
      End(ToGrpcStatus(status));
      return;
    }
    const bool answered = call_->Serve(frame_->chunks(), &scratch_);
    frame_.reset();
    if (!answered) {
      End(Lost());
    }
  }

  void Read() {
    ++outstanding_;
    stream_.Read(&incoming_, &read_);
  }

  void Write() {
    writing_ = true;
    ++outstanding_;
    stream_.Write(MakeMessage(*std::move(ready_)), &write_);
    ready_.reset();
  }

  // What is outstanding comes back soon; nothing new begins. The turn lasts until
  // then, because a read may still hold a message.
  void End(const grpc::Status& status) {
    if (std::exchange(ended_, true)) {
      return;
    }
    home_->frames->budget()->NoteEnding(this);
    alarm_.Cancel();
    call_.reset();
    ready_.reset();
    serving_.reset();
    ++outstanding_;
    stream_.Finish(status, &finish_);
  }

  Home* const home_;
  const InFlight::Scope counted_;  // the first after it: to the very end
  QueueTag accept_ = TagOf(Op::kAccept), turn_ = TagOf(Op::kTurn), give_way_ = TagOf(Op::kGiveWay),
           read_ = TagOf(Op::kRead), write_ = TagOf(Op::kWrite), delay_ = TagOf(Op::kDelay),
           finish_ = TagOf(Op::kFinish);

  Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Completion> completions_ ABSL_GUARDED_BY(mutex_);

  grpc::ServerContext context_;
  RawStream stream_;
  std::optional<FrameServer::Admission> admission_;
  // Operations that have not come back. Another thread adds one in GiveWay, while
  // there is one.
  std::atomic<int> outstanding_{0};
  std::atomic<bool> stuck_{false};  // nobody takes the answers
  bool idle_ = false;               // has a turn, and nothing to serve
  bool has_message_ = false;
  bool reading_ended_ = false;
  bool writing_ = false;
  bool delaying_ = false;
  bool ended_ = false;  // Finish was called
  grpc::ByteBuffer incoming_;
  std::optional<ReceivedFrame> frame_;      // being served
  std::optional<InFlight::Scope> serving_;  // until all is answered
  std::optional<FrameCall> call_;
  std::optional<FrameCall::Answer> ready_;
  FrameScratch scratch_;
  grpc::Alarm alarm_, turn_alarm_, way_alarm_;
};

class GrpcFrameService final : public FrameService {
 public:
  explicit GrpcFrameService(FrameServer* frames) { home_.frames = frames; }

  grpc::Service* service() override { return &home_.service; }

  void Start(grpc::ServerCompletionQueue* queue, const Guard* guard) override {
    home_.queue = queue;
    home_.guard = guard;
    for (unsigned i = 0; i < kAwaitedStreams; ++i) {
      new Stream(&home_);
    }
  }

  void Stop() override {
    // A stream that learns of its end still says so through the queue.
    while (!home_.streams.WaitIdle(kStopWarning)) {
      LOG(WARNING) << "data streams are still ending";
    }
  }

 private:
  Home home_;
};

}  // namespace

std::unique_ptr<FrameService> FrameService::Create(FrameServer* frames) {
  return std::make_unique<GrpcFrameService>(frames);
}

}  // namespace monsoon
