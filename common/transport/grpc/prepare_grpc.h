// What the whole process does once before its first use of gRPC; channels, servers and Tls do it.
#pragma once

namespace monsoon {

// - Protobuf's complaints about what peers send go through our logger, a few at most.
// - Debian's Abseil looks for deadlocks at each lock that gRPC takes, in one graph
//   for all threads: switched off. Our own locks are not Abseil's.
// - gRPC's log goes to ours as DEBUG, unless GRPC_VERBOSITY is set.
// - gRPC's shutdown with the last channel or server may wait ten seconds for a
//   thread that polls for unfinished writes: gRPC stays up until the process ends.
void PrepareGrpc();

}  // namespace monsoon
