// CoordinatorServer: a coordinator that listens. Two of them fit in one process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/security/certificate_authority.h"
#include "common/transport/frame/fault.h"
#include "proto/cluster.pb.h"

namespace monsoon {

class Tls;

class CoordinatorServer {
 public:
  struct Options {
    // Defaults may be unset.
    Cluster cluster;
    // Where to listen; empty: as the cluster file says. Port 0: any free one.
    std::string address;
    // As of RpcServerOptions, and of MakeChannel for the shards.
    std::shared_ptr<Tls> tls;
    bool insecure = false;
    // Where to keep its state, in a folder `coordinator`; "": in memory only.
    std::string state_dir;
    // With which others may join; without one nobody can.
    std::optional<CertificateAuthority> authority;
    // Of every RPC served and sent. Loopback only.
    FaultOptions fault;
    const Clock* clock = Clock::Real();
  };

  // Binds and serves; the shards and workers need not be there yet. Errors:
  // those of RpcServer::Start, of OpenSqliteJournal and FileLock::Take, INVALID_ARGUMENT for
  // faults off the loopback, FAILED_PRECONDITION for another cluster's authority.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(Options options);

  virtual ~CoordinatorServer() = default;

  // Where clients reach it: the address with the port it got.
  virtual const std::string& address() const = 0;

  // Takes no new calls and returns after those in progress, within about a
  // second, and the calls to shards, within their deadline. May be called again.
  virtual void Stop() = 0;
};

}  // namespace monsoon
