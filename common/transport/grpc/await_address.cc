#include "common/transport/grpc/await_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/process/unique_fd.h"

namespace monsoon {
namespace {

constexpr absl::Duration kBetweenTries = absl::Milliseconds(20);

// Whether another socket listens there.
bool InUse(const sockaddr* address, socklen_t length) {
  const UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return false;
  }
  return bind(fd.get(), address, length) != 0 && errno == EADDRINUSE;
}

bool TcpInUse(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) !=
      0) {
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (; found != nullptr; found = found->ai_next) {
    if (InUse(found->ai_addr, found->ai_addrlen)) {
      return true;
    }
  }
  return false;
}

bool AbstractInUse(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    return false;
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return InUse(reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

bool InUse(const Address& address) {
  switch (address.kind) {
    case Address::Kind::kTcp:
      return address.port != 0 && TcpInUse(address);
    case Address::Kind::kUnixAbstract:
      return AbstractInUse(address.path);
    case Address::Kind::kUnix:
      return false;  // gRPC replaces what a dead process left
  }
  return false;
}

}  // namespace

void AwaitFreeAddress(const Address& address, absl::Duration timeout) {
  const absl::Duration end = Clock::Real()->Now() + timeout;
  while (InUse(address) && Clock::Real()->Now() < end) {
    absl::SleepFor(kBetweenTries);
  }
}

}  // namespace monsoon
