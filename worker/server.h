// WorkerServer: what a worker serves on its address: gRPC's health service, and
// /monsoon.Worker/Ping, which answers with the bytes it got, so that a probe
// can tell a worker from a stranger. Work comes from the coordinator by calls
// that the worker makes, so nothing else is needed here.
//
// Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace monsoon {

class Tls;

class WorkerServer {
 public:
  // Binds and serves; errors name the address. `tls`, `insecure` and `on_trouble` are those of
  // RpcServerOptions.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(
      const std::string& address, std::shared_ptr<Tls> tls, bool insecure,
      std::function<void(const std::string&)> on_trouble);
  virtual ~WorkerServer() = default;

  // With the port it got.
  virtual const std::string& address() const = 0;
};

}  // namespace monsoon
