// Guard: who is at the other end of a server's connection, and whether he may ask for what he asks
// for. Each call and each data stream goes past it.
//
// Thread safe. gRPC's types stay in guard.cc and its users.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/security/caller.h"
#include "common/security/revocations.h"
#include "common/transport/grpc/connections.h"
#include "common/transport/grpc/tls.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace monsoon {

class Guard {
 public:
  // Says why a member is one no more (revoked); OK: it is one.
  using Membership = std::function<absl::Status(const Peer& member)>;
  // That he is none whose key was revoked. `revoked` outlives it.
  static Membership NotRevoked(const RevokedKeys* revoked);

  // Open to all.
  Guard() = default;
  // Of a server of `tls`; null: open to all. `membership` may be null.
  // `connections` outlives it.
  Guard(std::shared_ptr<Tls> tls, Membership membership, Connections* connections)
      : tls_(std::move(tls)), membership_(std::move(membership)), connections_(connections) {}

  // Who calls; Unauthenticated where his certificate has ended meanwhile. A call is of one
  // connection, which is of one caller.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context) const;

  // Whether he may still ask for anything, which a long stream asks again for each message.
  absl::Status CheckMember(const Caller& caller) const;

  // Both of these, CheckCall, and that his member may have one connection more if this one is new
  // (connections.h).
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& context,
                               absl::string_view method) const;

 private:
  std::shared_ptr<Tls> tls_;
  Membership membership_;
  Connections* connections_ = nullptr;  // null: all may come
};

}  // namespace monsoon
