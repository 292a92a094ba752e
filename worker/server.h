// WorkerServer: what a worker serves on its address: gRPC's health service;
// /monsoon.Worker/Ping, which answers with the bytes it got, so that a probe
// can tell a worker from a stranger; and the frames of other members of a group
// (common/collective), on the same host through shared memory too. Work comes from
// the coordinator by calls that the worker makes.
//
// Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/frame_handler.h"
#include "proto/shared_memory.pb.h"

namespace monsoon {

class Tls;

class WorkerServer {
 public:
  // Binds and serves; errors name the address. `tls`, `insecure` and `on_trouble` are those of
  // RpcServerOptions. `frames` outlives this.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(
      const std::string& address, FrameHandler* frames, std::shared_ptr<Tls> tls, bool insecure,
      std::function<void(const std::string&)> on_trouble);
  virtual ~WorkerServer() = default;

  // With the port it got.
  virtual const std::string& address() const = 0;
  // Where members on this host find the shared memory; without a socket: nowhere.
  virtual SharedMemoryOffer offer() const = 0;
};

}  // namespace monsoon
