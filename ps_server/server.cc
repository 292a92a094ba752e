#include "ps_server/server.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/frame_codec.h"
#include "common/rpc/server.h"
#include "common/shm/frame_channel.h"
#include "ps_server/data_service.h"
#include "ps_server/frame_server.h"
#include "ps_server/service.h"
#include "ps_server/shm_server.h"

namespace monsoon {
namespace {

// For clients to take their last answers, once nothing is being served.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(200);

uint64_t RandomEpoch() {
  std::random_device device;
  uint64_t epoch = 0;
  while (epoch == 0) {
    epoch = (uint64_t{device()} << 32) | device();
  }
  return epoch;
}

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

class GrpcPsServer final : public PsServer {
 public:
  explicit GrpcPsServer(const PsServerOptions& options)
      : epoch_(RandomEpoch()),
        shard_({options.cluster, options.task, epoch_, options.memory_limit_bytes}),
        frames_(&shard_, options.message_memory_bytes, kStreamLookaheadBytes, options.fault),
        shared_memory_(options.shared_memory ? StartSharedMemory(&frames_) : nullptr),
        service_(ParameterServerService::Create(
            &shard_, &frames_, options.message_memory_bytes,
            shared_memory_ == nullptr ? SharedMemoryOffer() : shared_memory_->offer())),
        data_(DataService::Create(&frames_)) {}

  ~GrpcPsServer() override {
    if (server_ != nullptr) {
      server_->Shutdown(absl::ZeroDuration());
    }
    data_->Stop();
  }

  absl::Status Listen(const PsServerOptions& options) {
    RpcServerOptions rpc;
    rpc.address = options.address;
    rpc.insecure = options.insecure;
    rpc.max_message_bytes = kMaxFrameBytes;
    std::unique_ptr<grpc::ServerCompletionQueue> queue;
    ASSIGN_OR_RETURN(server_,
                     RpcServer::Start(rpc, {service_->service(), data_->service()}, &queue));
    data_->Start(std::move(queue));
    return absl::OkStatus();
  }

  const std::string& address() const override { return server_->address(); }
  int port() const override { return server_->port(); }
  uint64_t epoch() const override { return epoch_; }

  ShardStatusReply GetStatus() const override {
    absl::StatusOr<ShardStatusReply> status = shard_.GetStatus({});
    CHECK_OK(status.status());
    return *std::move(status);
  }

  void Drain(absl::Duration grace) override {
    shard_.StartDraining();
    if (!frames_.in_flight()->WaitIdle(grace)) {
      LOG(WARNING) << "requests were still being served after " << absl::FormatDuration(grace);
    }
    server_->Shutdown(kLastAnswers);
    shared_memory_.reset();
  }

 private:
  const uint64_t epoch_;
  Shard shard_;
  FrameServer frames_;
  std::unique_ptr<SharedMemoryServer> shared_memory_;  // null: not offered
  const std::unique_ptr<ParameterServerService> service_;
  const std::unique_ptr<DataService> data_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsServer>> PsServer::Start(const PsServerOptions& options) {
  const std::string name = absl::StrCat("ps/", options.task);
  if (options.fault.enabled() && !IsLoopback(options.address)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": --fault is for loopback addresses only, not ", options.address));
  }
  auto server = std::make_unique<GrpcPsServer>(options);
  if (const absl::Status status = server->Listen(options); !status.ok()) {
    return Annotate(status, name);
  }
  return server;
}

}  // namespace monsoon
