// Where a server must listen for all who look up its address to find it and nobody
// else. For gRPC's clients "localhost" is ::1 and 127.0.0.1, whatever /etc/hosts says; a
// server of it is content with one of them, and a client that takes the other meets
// whoever listens there.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace monsoon {

// What to hand to gRPC for `address` (config/address.h). A name of several of
// this machine's addresses becomes all of them, with one port: for port 0 one that is
// free at each. A process that was killed holds its listening socket until the kernel
// has given back its memory (0.16 s for 3 GiB), so a port or abstract socket in use is
// waited for up to `timeout`; then Unavailable, which names what is in use. What is not
// this machine's is left out, or, if that is all, to gRPC's own error.
absl::StatusOr<std::vector<std::string>> ListenAddresses(const std::string& address,
                                                         absl::Duration timeout);

// What the name of a host in `address` stands for on this machine: addresses with its port, as in
// "10.0.0.5:2222"; none of an address that has no name to look up. Blocks on the resolver.
std::vector<std::string> NamedAddresses(const std::string& address);

}  // namespace monsoon
