// Sockets that listen where all who look up an address find them and nobody else does. For
// gRPC's clients "localhost" is ::1 and 127.0.0.1, whatever /etc/hosts says; a server of one of
// them leaves the other to whoever listens there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/unique_fd.h"

namespace monsoon {

struct ListenSockets {
  // Non-blocking.
  std::vector<UniqueFd> sockets;
  uint16_t port = 0;  // of a host's address
  std::string path;   // of a Unix socket, which RemoveSocketFile takes at the end; "": none
  ino_t inode = 0;    // of the path
};

// Listens at `address` (config/address.h): at all of this machine's addresses that a name stands
// for, with one port; for port 0 one that is free at each. An address of all networks takes IPv4
// and IPv6. What a dead process left of a Unix socket's path is replaced. A process that was
// killed holds its listening socket until the kernel has given back its memory (0.16 s for
// 3 GiB), so a port or socket in use is waited for up to `timeout`; then Unavailable,
// which names what is in use. What is not this machine's is left out; Unavailable if that is all.
// FailedPrecondition: of a Unix socket's path (unix_listener.h).
absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& address, absl::Duration timeout);

// What the name of a host in `address` stands for on this machine: addresses with its port, as in
// "10.0.0.5:2222"; none of an address that has no name to look up. Blocks on the resolver.
std::vector<std::string> NamedAddresses(const std::string& address);

}  // namespace monsoon
