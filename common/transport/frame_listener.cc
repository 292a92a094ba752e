#include "common/transport/frame_listener.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/shm/frame_channel.h"

namespace monsoon {
namespace {

// For clients to take their last answers, once nothing is being served.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(200);
// The turns' thread wakes so often while somebody waits, and while nobody does.
constexpr absl::Duration kBetweenTicks = absl::Milliseconds(2);
constexpr absl::Duration kIdleWait = absl::Seconds(1);

// One thread can receive while another one applies, on any machine.
constexpr unsigned kFewestThreads = 2;
constexpr unsigned kMostThreads = 32;

// Null, with a line in the log, where the system cannot do it.
std::unique_ptr<SharedMemoryServer> StartSharedMemory(FrameServer* frames) {
  static_assert(FrameChannel::kMemoryBytes < kOpenSharedBytes);
  absl::StatusOr<std::unique_ptr<SharedMemoryServer>> server = SharedMemoryServer::Start(frames);
  if (!server.ok()) {
    LOG(WARNING) << "the data plane is not offered in shared memory: " << server.status().message();
    return nullptr;
  }
  return *std::move(server);
}

}  // namespace

FrameListener::FrameListener(FrameHandler* handler, const FrameListenerOptions& options)
    : frames_(handler, options.message_memory_bytes, options.fault),
      turns_([this] { KeepTurns(); }),
      shared_memory_(options.shared_memory ? StartSharedMemory(&frames_) : nullptr),
      frame_service_(FrameService::Create(&frames_)) {}

FrameListener::~FrameListener() {
  frames_.budget()->Open();  // nobody waits for a turn any more
  if (rpc_server_ != nullptr) {
    rpc_server_->Shutdown(absl::ZeroDuration());
  }
  frame_service_->Stop();
}

void FrameListener::KeepTurns() {
  static_assert(kServerLookaheadBytes == kOpenStreamBytes);
  const Clock* const clock = Clock::Real();
  while (!frames_.budget()->open()) {
    if (frames_.budget()->AwaitWaiting(kIdleWait)) {
      frames_.budget()->Tick(clock->Now());
      absl::SleepFor(kBetweenTicks);
    }
  }
}

absl::Status FrameListener::Listen(const Endpoint& endpoint, CallTable calls) {
  RpcServerOptions options;
  options.address = endpoint.address;
  options.tls = endpoint.tls;
  options.insecure = endpoint.insecure;
  options.membership = endpoint.membership;
  options.on_trouble = endpoint.on_trouble;
  options.max_message_bytes = kMaxFrameBytes;
  options.bulk = true;
  options.queue_threads =
      std::clamp(std::thread::hardware_concurrency(), kFewestThreads, kMostThreads);
  ASSIGN_OR_RETURN(rpc_server_,
                   RpcServer::Start(options, std::move(calls), frame_service_->service()));
  frame_service_->Start(rpc_server_->queue(), rpc_server_->guard());
  return absl::OkStatus();
}

SharedMemoryOffer FrameListener::offer() const {
  return shared_memory_ == nullptr ? SharedMemoryOffer() : shared_memory_->offer();
}

void FrameListener::Drain(absl::Duration grace) {
  if (!frames_.in_flight()->WaitIdle(grace)) {
    LOG(WARNING) << "requests were still being served after " << absl::FormatDuration(grace);
  }
  frames_.budget()->Open();
  if (rpc_server_ != nullptr) {
    rpc_server_->Shutdown(kLastAnswers);
  }
  shared_memory_.reset();
}

}  // namespace monsoon
