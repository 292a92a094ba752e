// PsServer: one parameter server, listening. Two fit in one process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/fault.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class Tls;

struct PsServerOptions {
  std::string cluster;
  uint32_t task = 0;
  std::string address;  // host:port or unix:PATH
  // As of RpcServerOptions.
  std::shared_ptr<Tls> tls;
  bool insecure = false;
  uint64_t memory_limit_bytes = uint64_t{4096} << 20;
  std::string memory_limit_is = "ps.memory_limit_mib in the cluster file";  // for people
  uint64_t message_memory_bytes = uint64_t{256} << 20;
  FaultOptions fault;
  // Offers the data plane in shared memory too, to clients on the same host.
  bool shared_memory = true;
  // Where it keeps checkpoints and its epoch; "": in memory only.
  std::string state_dir;
  uint32_t keep_ended_jobs = 20;
};

class PsServer {
 public:
  // Binds and serves, with an epoch of its own. Errors name ps/TASK, and the
  // address or the state folder; FailedPrecondition for a folder that another process
  // holds. Faults are refused where other machines can reach the server.
  static absl::StatusOr<std::unique_ptr<PsServer>> Start(const PsServerOptions& options);
  // Stops at once.
  virtual ~PsServer() = default;

  // With the port it got.
  virtual const std::string& address() const = 0;
  virtual int port() const = 0;
  virtual uint64_t shard_epoch() const = 0;

  // What the shard holds and has counted; also after Drain.
  virtual ShardStatusReply GetStatus() const = 0;

  // Refuses new pushes, finishes and acknowledges those being applied, writes
  // generations of jobs that have one, then stops. Blocks `grace` at most for each of
  // the two, and a little.
  virtual void Drain(absl::Duration grace) = 0;
};

}  // namespace monsoon
