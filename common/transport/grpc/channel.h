// Channels to other tasks, with the settings that gRPC 1.51 needs.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/security/identity.h"
#include "common/transport/grpc/tls.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace monsoon {

// Bytes of answers that a client's stream may hold in the transport before the
// client reads them. Four times the bandwidth of loopback over its round trip.
inline constexpr int kClientLookaheadBytes = 2 << 20;
// The same of a server, whose budget counts them for each open stream: what comes
// until the server says that it reads. A message that is being read may arrive
// whole.
inline constexpr int kServerLookaheadBytes = 128 << 10;

// Connects lazily and keeps trying. Pings find a half-open link or a stopped
// peer within seconds. gRPC's own retry is off: only the caller knows what is
// safe to repeat. Every channel has its own connection.
//
// With `tls` the connection proves both ends, and the other one is a task of the role `server`;
// a Unix socket is in a folder of its user instead. Null: nothing is proved.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const std::shared_ptr<Tls>& tls = nullptr,
                                           Role server = Role::kCoordinator);

// Sets a deadline on the steady clock.
void SetDeadline(grpc::ClientContext* context, absl::Duration deadline);

}  // namespace monsoon
