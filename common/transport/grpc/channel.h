// Channels to other tasks, with the settings that gRPC 1.51 needs.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
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
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

// For the whole process, before its first use of gRPC; channels and servers do it.
// - Protobuf's complaints about what peers send go through our logger, a few at most.
// - Debian's Abseil looks for deadlocks at each lock that gRPC takes, in one graph
//   for all threads: switched off. Our own locks are not Abseil's.
// - gRPC's log goes to ours as DEBUG, unless GRPC_VERBOSITY is set.
// - gRPC's shutdown with the last channel or server may wait ten seconds for a
//   thread that polls for unfinished writes: gRPC stays up until the process ends.
void PrepareGrpc();

// Sets a deadline on the steady clock.
void SetDeadline(grpc::ClientContext* context, absl::Duration deadline);

}  // namespace monsoon
