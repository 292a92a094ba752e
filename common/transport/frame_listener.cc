#include "common/transport/frame_listener.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/shm/frame_channel.h"

namespace monsoon {
namespace {

// For clients to take their last answers, once nothing is being served.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(200);

// Null, with a line in the log, where the system cannot do it.
std::unique_ptr<SharedMemoryServer> StartSharedMemory(FrameServer* frames) {
  // A connection of either kind has the same share of the message memory.
  static_assert(FrameChannel::kMemoryBytes + kMaxFrameBytes + 2 * kMaxFramePayloadBytes <=
                StreamBytes(kStreamLookaheadBytes));
  absl::StatusOr<std::unique_ptr<SharedMemoryServer>> server = SharedMemoryServer::Start(frames);
  if (!server.ok()) {
    LOG(WARNING) << "the data plane is not offered in shared memory: " << server.status().message();
    return nullptr;
  }
  return *std::move(server);
}

}  // namespace

FrameListener::FrameListener(FrameHandler* handler, const FrameListenerOptions& options)
    : frames_(handler, options.message_memory_bytes, kStreamLookaheadBytes, options.fault),
      shared_memory_(options.shared_memory ? StartSharedMemory(&frames_) : nullptr),
      frame_service_(FrameService::Create(&frames_)) {}

FrameListener::~FrameListener() {
  if (rpc_server_ != nullptr) {
    rpc_server_->Shutdown(absl::ZeroDuration());
  }
  frame_service_->Stop();
}

absl::Status FrameListener::Listen(const Endpoint& endpoint, std::vector<grpc::Service*> services) {
  RpcServerOptions options;
  options.address = endpoint.address;
  options.insecure = endpoint.insecure;
  options.max_message_bytes = kMaxFrameBytes;
  services.push_back(frame_service_->service());
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  ASSIGN_OR_RETURN(rpc_server_, RpcServer::Start(options, services, &queue));
  frame_service_->Start(std::move(queue));
  return absl::OkStatus();
}

SharedMemoryOffer FrameListener::offer() const {
  return shared_memory_ == nullptr ? SharedMemoryOffer() : shared_memory_->offer();
}

void FrameListener::Drain(absl::Duration grace) {
  if (!frames_.in_flight()->WaitIdle(grace)) {
    LOG(WARNING) << "requests were still being served after " << absl::FormatDuration(grace);
  }
  if (rpc_server_ != nullptr) {
    rpc_server_->Shutdown(kLastAnswers);
  }
  shared_memory_.reset();
}

}  // namespace monsoon
