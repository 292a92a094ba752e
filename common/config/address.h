// Addresses of tasks: `host:port`, `[ipv6]:port` or `unix:PATH`, as gRPC takes them. Abstract Unix
// sockets, which gRPC takes too, are none: no mode keeps other users away from them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace monsoon {

// sun_path has 108 bytes, one of them a NUL.
inline constexpr size_t kMaxUnixPathBytes = 107;

struct Address {
  enum class Kind { kTcp, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;   // kTcp: a name or address, without brackets
  uint16_t port = 0;  // kTcp: 0 lets the system choose
  std::string path;   // kUnix
};

// InvalidArgument says what is wrong with the text. Does not resolve names.
absl::StatusOr<Address> ParseAddress(const std::string& text);

// Whether only this machine can reach it: unix sockets, "localhost",
// 127.0.0.0/8, ::1. False for what does not parse. A server on any other
// address without TLS needs --insecure.
bool IsLoopback(const std::string& address);

// Whether it is a host's and a port, and no Unix socket.
bool IsTcp(const std::string& address);

// Whether two tasks cannot both listen there. Port 0 never collides.
bool SameEndpoint(const Address& a, const Address& b);

}  // namespace monsoon
