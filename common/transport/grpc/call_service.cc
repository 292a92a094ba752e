#include "common/transport/grpc/call_service.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/security/caller.h"
#include "common/transport/frame/in_flight.h"
#include "common/transport/grpc/conduct.h"
#include "common/transport/grpc/queue_threads.h"
#include "common/transport/grpc/reset_watch.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

namespace monsoon {
namespace {

using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;
using Writer = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;

// Of each method so many calls may come at once before a thread of the queue looks.
constexpr int kAwaitedCalls = 2;
constexpr size_t kMostKnown = 4096;
constexpr absl::Duration kStopWarning = absl::Seconds(10);
constexpr absl::Duration kCutPeriod = absl::Minutes(1);

bool IsOfMany(const std::string& peer) { return !absl::StartsWith(peer, "ipv"); }

// Whose share of threads and memory the call takes.
CallThreads::Peer PeerOf(const grpc::ServerContextBase& context, const Guard& guard) {
  using Kind = CallThreads::Peer::Kind;
  const absl::StatusOr<Caller> caller = guard.Identify(context);
  if (caller.ok() && caller->member.has_value()) {
    return {QuotaName(*caller), Kind::kMember};
  }
  const std::string peer = context.peer();
  return {peer, IsOfMany(peer) ? Kind::kMany : Kind::kConnection};
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Dump(&slices).ok()) {
    bytes.reserve(buffer.Length());
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return bytes;
}

// What gRPC knows of a CallTable. Of an asynchronous unary method it tells when the whole request
// has come: what is taken back before is none of ours, and costs what reads the connection.
class TableService final : public grpc::Service {
 public:
  // `table` outlives this.
  explicit TableService(const CallTable& table) {
    for (const CallTable::Call& call : table.calls()) {
      AddMethod(new RpcServiceMethod(call.method.c_str(), RpcMethod::NORMAL_RPC,
                                     /*handler=*/nullptr));
      MarkMethodRaw(static_cast<int>(&call - table.calls().data()));
    }
  }

  void Request(size_t method, grpc::ServerContext* context, grpc::ByteBuffer* request,
               Writer* writer, grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncUnary(static_cast<int>(method), context, request, writer, queue, queue, tag);
  }
};

class GrpcCallService;

// One call, from before a client makes it. Deletes itself when nothing is under way any more:
// operations that the queue brings back, and its turn on CallThreads.
class Call {
 public:
  Call(GrpcCallService* owner, size_t method);

 private:
  void OnAccept(bool ok);
  void OnOver();
  void Serve();
  bool IsWanted() const;
  void Refuse(const absl::Status& status) {
    ++under_way_;
    writer_.FinishWithError(ToGrpcStatus(status), &finished_);
  }
  // An operation has come back, or the turn is over.
  void EndOne() {
    if (--under_way_ == 0) {
      delete this;
    }
  }

  GrpcCallService* const owner_;
  const size_t method_;
  const InFlight::Scope counted_;
  grpc::ServerContext context_;
  Writer writer_{&context_};
  grpc::ByteBuffer request_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int> under_way_{2};  // at first accepted_ and over_, in any order
  QueueTag accepted_{[this](bool ok) { OnAccept(ok); }, /*may_block=*/true};
  QueueTag over_{[this](bool) { OnOver(); }};
  QueueTag finished_{[this](bool) { EndOne(); }};
};

// One call of a method that is in no table, from before a client makes it; deletes itself. Clients
// of ours make a few before they know that the other one is of another version.
class UnknownCall {
 public:
  explicit UnknownCall(GrpcCallService* owner);

 private:
  void OnAccept(bool ok);

  GrpcCallService* const owner_;
  const InFlight::Scope counted_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  QueueTag accepted_{[this](bool ok) { OnAccept(ok); }};
  QueueTag finished_{[this](bool) { delete this; }};
};

class GrpcCallService final : public CallService {
 public:
  GrpcCallService(CallTable calls, const CallLimits& limits, Connections* connections,
                  const Guard* guard)
      : table_(std::move(calls)),
        connections_(connections),
        guard_(guard),
        threads_(limits),
        service_(table_) {}

  void Register(grpc::ServerBuilder* builder) override {
    builder->RegisterService(&service_);
    builder->RegisterAsyncGenericService(&unknown_);
  }

  void Start(grpc::ServerCompletionQueue* queue) override {
    queue_ = queue;
    resets_ = std::make_unique<ResetWatch>(
        [this](const std::string& peer, uint64_t calls) { NoteResets(peer, calls); });
    new UnknownCall(this);
    for (size_t method = 0; method < table_.calls().size(); ++method) {
      for (int i = 0; i < kAwaitedCalls; ++i) {
        new Call(this, method);
      }
    }
  }

  void Stop() override {
    resets_.reset();
    threads_.Stop();
    while (!calls_.WaitIdle(kStopWarning)) {
      LOG(WARNING) << "calls are still ending";
    }
  }

 private:
  friend class Call;
  friend class UnknownCall;

  // A call of `peer` has ended without an answer, or can have none. gRPC counts it as well if it
  // was taken back.
  void NoteInVain(const std::string& peer, bool taken_back) {
    if (taken_back) {
      MutexLock lock(&mutex_);
      if (known_.size() >= kMostKnown) {
        known_.clear();  // those of connections that have ended meanwhile stay in it
      }
      ++known_[peer];
    }
    Judge(peer, 1);
  }

  // What gRPC has counted, which is more than has come to a call here.
  void NoteResets(const std::string& peer, uint64_t calls) {
    {
      MutexLock lock(&mutex_);
      const auto known = known_.find(peer);
      const uint64_t counted = known == known_.end() ? 0 : std::min(known->second, calls);
      calls -= counted;
      if (counted > 0 && (known->second -= counted) == 0) {
        known_.erase(known);
      }
    }
    if (calls > 0) {
      Judge(peer, calls);
    }
  }

  void Judge(const std::string& peer, uint64_t calls) {
    const absl::Duration now = Clock::Real()->Now();
    if (IsOfMany(peer)) {
      return;
    }
    {
      MutexLock lock(&mutex_);
      if (!conduct_.NoteInVain(peer, now, calls)) {
        return;
      }
    }
    if (!connections_->Cut(peer)) {
      return;  // its calls outlive its connection
    }
    // A thousand calls between two looks is nobody's mistake.
    connections_->NoteCut(peer, now, std::max(1.0, calls / Conduct::kMost));
    if (const std::optional<uint64_t> left_out = cuts_.Take(now)) {
      LOG(WARNING) << peer
                   << " is cut off: it makes calls all the time and takes them back, or ones that "
                      "nobody knows"
                   << LeftOut(*left_out);
    }
  }

  const CallTable table_;
  Connections* const connections_;
  const Guard* const guard_;
  CallThreads threads_;
  InFlight calls_;
  TableService service_;
  grpc::AsyncGenericService unknown_;
  grpc::ServerCompletionQueue* queue_ = nullptr;  // null before Start
  Mutex mutex_;
  Conduct conduct_ ABSL_GUARDED_BY(mutex_);
  // Calls that were taken back, of which gRPC's count has yet to come.
  absl::flat_hash_map<std::string, uint64_t> known_ ABSL_GUARDED_BY(mutex_);
  LogLimit cuts_{kCutPeriod};
  std::unique_ptr<ResetWatch> resets_;  // null before Start, and after Stop
};

Call::Call(GrpcCallService* owner, size_t method)
    : owner_(owner), method_(method), counted_(&owner->calls_) {
  context_.AsyncNotifyWhenDone(&over_);
  owner->service_.Request(method, &context_, &request_, &writer_, owner->queue_, &accepted_);
}

void Call::OnAccept(bool ok) {
  if (!ok) {
    EndOne();  // what never began is not over
    EndOne();
    return;
  }
  new Call(owner_, method_);  // for the next client
  ++under_way_;
  const absl::Status offered =
      owner_->threads_.ServeOrOffer(PeerOf(context_, *owner_->guard_), request_.Length(), [this] {
        Serve();
        EndOne();
      });
  if (!offered.ok()) {
    Refuse(offered);
    EndOne();
  }
  EndOne();
}

UnknownCall::UnknownCall(GrpcCallService* owner) : owner_(owner), counted_(&owner->calls_) {
  owner->unknown_.RequestCall(&context_, &stream_, owner->queue_, owner->queue_, &accepted_);
}

// Clients know a refusal without a text as that of an unknown call.
void UnknownCall::OnAccept(bool ok) {
  if (ok) {
    new UnknownCall(owner_);
    owner_->NoteInVain(context_.peer(), /*taken_back=*/false);
    stream_.Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""), &finished_);
  } else {
    delete this;
  }
}

void Call::OnOver() {
  if (context_.IsCancelled()) {
    cancelled_ = true;
    owner_->NoteInVain(context_.peer(), /*taken_back=*/true);
  }
  EndOne();
}

bool Call::IsWanted() const {
  const gpr_timespec deadline = context_.raw_deadline();
  return !cancelled_ && gpr_time_cmp(deadline, gpr_now(deadline.clock_type)) > 0;
}

void Call::Serve() {
  if (!IsWanted()) {
    Refuse(absl::DeadlineExceededError("the call's deadline passed before it was served"));
    return;
  }
  const CallTable::Call& call = owner_->table_.calls()[method_];
  const absl::StatusOr<Caller> caller = owner_->guard_->Admit(context_, call.method);
  if (!caller.ok()) {
    Refuse(caller.status());
    return;
  }
  const absl::StatusOr<std::string> reply = call.serve(*caller, BytesOf(request_));
  request_.Clear();
  if (!reply.ok()) {
    Refuse(reply.status());
    return;
  }
  const grpc::Slice slice(*reply);
  ++under_way_;
  writer_.Finish(grpc::ByteBuffer(&slice, 1), grpc::Status::OK, &finished_);
}

}  // namespace

std::unique_ptr<CallService> CallService::Create(CallTable calls, const CallLimits& limits,
                                                 Connections* connections, const Guard* guard) {
  return std::make_unique<GrpcCallService>(std::move(calls), limits, connections, guard);
}

}  // namespace monsoon
