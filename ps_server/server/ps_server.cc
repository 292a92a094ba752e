#include "ps_server/server/ps_server.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/transport/frame_listener.h"
#include "ps_server/server/service.h"
#include "ps_server/server/shard_frame_handler.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

uint64_t RandomEpoch() {
  std::random_device device;
  uint64_t shard_epoch = 0;
  while (shard_epoch == 0) {
    shard_epoch = (uint64_t{device()} << 32) | device();
  }
  return shard_epoch;
}

class GrpcPsServer final : public PsServer {
 public:
  explicit GrpcPsServer(const PsServerOptions& options)
      : shard_epoch_(RandomEpoch()),
        shard_({options.cluster, options.task, shard_epoch_, options.memory_limit_bytes}),
        handler_(&shard_),
        listener_(&handler_, {options.message_memory_bytes, options.fault, options.shared_memory}) {
    service_ = ParameterServerService::Create(&shard_, listener_.frames(),
                                              options.message_memory_bytes, listener_.offer());
  }

  absl::Status Listen(const PsServerOptions& options) {
    return listener_.Listen({options.address, options.insecure}, {service_->service()});
  }

  const std::string& address() const override { return listener_.address(); }
  int port() const override { return listener_.port(); }
  uint64_t shard_epoch() const override { return shard_epoch_; }

  ShardStatusReply GetStatus() const override {
    absl::StatusOr<ShardStatusReply> status = shard_.GetStatus({});
    CHECK_OK(status.status());
    return *std::move(status);
  }

  void Drain(absl::Duration grace) override {
    shard_.StartDraining();
    listener_.Drain(grace);
  }

 private:
  const uint64_t shard_epoch_;
  Shard shard_;
  ShardFrameHandler handler_;
  std::unique_ptr<ParameterServerService> service_;  // served by listener_ to its end
  FrameListener listener_;
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
