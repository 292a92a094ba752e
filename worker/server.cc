#include "worker/server.h"

#include <utility>

#include "common/base/status.h"
#include "common/transport/frame_listener.h"
#include "common/transport/grpc/call_table.h"

namespace monsoon {
namespace {

class FrameWorkerServer : public WorkerServer {
 public:
  explicit FrameWorkerServer(FrameHandler* frames) : listener_(frames, {}) {}

  absl::Status Start(const std::string& address, std::shared_ptr<Tls> tls, bool insecure,
                     std::function<void(const std::string&)> on_trouble) {
    CallTable calls;
    calls.AddBytes("/monsoon.Worker/Ping",
                   [](const Caller&, absl::string_view request) { return std::string(request); });
    return listener_.Listen({.address = address,
                             .tls = std::move(tls),
                             .insecure = insecure,
                             .on_trouble = std::move(on_trouble)},
                            std::move(calls));
  }
  const std::string& address() const override { return listener_.address(); }
  SharedMemoryOffer offer() const override { return listener_.offer(); }

 private:
  FrameListener listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    const std::string& address, FrameHandler* frames, std::shared_ptr<Tls> tls, bool insecure,
    std::function<void(const std::string&)> on_trouble) {
  auto server = std::make_unique<FrameWorkerServer>(frames);
  RETURN_IF_ERROR(server->Start(address, std::move(tls), insecure, std::move(on_trouble)));
  return server;
}

}  // namespace monsoon
