#include "common/transport/grpc/listen_sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/process/unique_fd.h"
#include "common/transport/grpc/unix_listener.h"

namespace monsoon {
namespace {

constexpr absl::Duration kBetweenTries = absl::Milliseconds(20);
// Connections that may wait to be taken; the kernel has a bound of its own.
constexpr int kBacklog = 4096;
// For a peer to acknowledge bytes: as long as its answer to a ping (rpc_server.cc).
constexpr int kUserTimeoutMs = 5'000;

struct Endpoint {
  sockaddr_storage address = {};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  uint16_t* port() {
    return address.ss_family == AF_INET6 ? &reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                         : &reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  }
  std::string Text() {
    char host[INET6_ADDRSTRLEN] = "";
    const bool six = address.ss_family == AF_INET6;
    const void* bits =
        six ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr)
            : static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr);
    inet_ntop(address.ss_family, bits, host, sizeof(host));
    return absl::StrCat(six ? "[" : "", host, six ? "]:" : ":", ntohs(*port()));
  }
};

// Both addresses of localhost.
std::vector<Endpoint> Loopbacks(uint16_t port) {
  Endpoint six, four;
  auto* const in6 = reinterpret_cast<sockaddr_in6*>(&six.address);
  in6->sin6_family = AF_INET6;
  in6->sin6_addr = in6addr_loopback;
  in6->sin6_port = htons(port);
  six.length = sizeof(sockaddr_in6);
  auto* const in4 = reinterpret_cast<sockaddr_in*>(&four.address);
  in4->sin_family = AF_INET;
  in4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  in4->sin_port = htons(port);
  four.length = sizeof(sockaddr_in);
  return {six, four};
}

// The name's addresses, each once. None for a name that is not found.
std::vector<Endpoint> Resolve(const Address& address) {
  if (absl::EqualsIgnoreCase(address.host, "localhost")) {
    return Loopbacks(address.port);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  std::vector<Endpoint> endpoints;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) !=
      0) {
    return endpoints;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (; found != nullptr; found = found->ai_next) {
    Endpoint endpoint;
    endpoint.length = found->ai_addrlen;
    std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
    bool known = false;
    for (const Endpoint& other : endpoints) {
      known = known || (other.length == endpoint.length &&
                        std::memcmp(&other.address, &endpoint.address, endpoint.length) == 0);
    }
    if (!known) {
      endpoints.push_back(endpoint);
    }
  }
  return endpoints;
}

// Of all networks: IPv6's, which takes IPv4 as well, and IPv4's for a kernel without IPv6.
std::vector<Endpoint> AnyNetwork(const Endpoint& named) {
  Endpoint six = Loopbacks(0).front();
  reinterpret_cast<sockaddr_in6*>(&six.address)->sin6_addr = in6addr_any;
  *six.port() = *Endpoint(named).port();
  return {six, named};
}

bool IsAnyNetwork(const Endpoint& endpoint) {
  if (endpoint.address.ss_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(&endpoint.address);
    return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&endpoint.address)->sin_addr.s_addr == INADDR_ANY;
}

UniqueFd MakeSocket(int family) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void Set(const UniqueFd& fd, int level, int option, int value) {
  setsockopt(fd.get(), level, option, &value, sizeof(value));
}

// Connections get these from the socket that listens.
void PrepareTcp(const UniqueFd& fd, int family, bool any_port) {
  if (family == AF_INET6) {
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (!any_port) {
    Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // connections that have ended do not hold a port
  }
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

// Listens at those of `endpoints` that are this machine's; at port 0, at all with one that is
// free. Unavailable: one is in use, or none is this machine's.
absl::StatusOr<ListenSockets> ListenTcp(const std::vector<Endpoint>& endpoints, bool first_is_all) {
  ListenSockets result;
  for (Endpoint endpoint : endpoints) {
    const int family = endpoint.address.ss_family;
    UniqueFd fd = MakeSocket(family);
    if (!fd.valid()) {
      continue;  // a kernel without this family
    }
    const bool any_port = *endpoint.port() == 0;
    if (any_port) {
      *endpoint.port() = htons(result.port);
    }
    PrepareTcp(fd, family, any_port);
    if (bind(fd.get(), endpoint.get(), endpoint.length) != 0 || listen(fd.get(), kBacklog) != 0) {
      if (errno == EADDRINUSE) {
        return absl::UnavailableError(
            absl::StrCat(endpoint.Text(), " is in use by another process"));
      }
      continue;
    }
    getsockname(fd.get(), endpoint.get(), &endpoint.length);
    result.port = ntohs(*endpoint.port());
    result.sockets.push_back(std::move(fd));
    if (first_is_all) {
      break;
    }
  }
  return result;
}

absl::StatusOr<ListenSockets> ListenUnix(const std::string& path) {
  ASSIGN_OR_RETURN(UnixListener listener, ListenAtPath(path, kBacklog));
  ListenSockets result;
  result.path = listener.path;
  result.inode = listener.inode;
  result.sockets.push_back(std::move(listener.socket));
  return result;
}

// No sockets where the address is none of this machine's.
absl::StatusOr<ListenSockets> Try(const Address& address) {
  if (address.kind == Address::Kind::kUnix) {
    return ListenUnix(address.path);
  }
  std::vector<Endpoint> endpoints = Resolve(address);
  const bool any = endpoints.size() == 1 && IsAnyNetwork(endpoints[0]);
  return ListenTcp(any ? AnyNetwork(endpoints[0]) : endpoints, any);
}

}  // namespace

std::vector<std::string> NamedAddresses(const std::string& address) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  in6_addr bits;
  if (!parsed.ok() || parsed->kind != Address::Kind::kTcp ||
      inet_pton(AF_INET, parsed->host.c_str(), &bits) == 1 ||
      inet_pton(AF_INET6, parsed->host.c_str(), &bits) == 1) {
    return {};
  }
  std::vector<std::string> texts;
  for (Endpoint& endpoint : Resolve(*parsed)) {
    texts.push_back(endpoint.Text());
  }
  return texts;
}

absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& address,
                                                absl::Duration timeout) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  const absl::Duration end = Clock::Real()->Now() + timeout;
  while (true) {
    absl::StatusOr<ListenSockets> opened = Try(parsed);
    if (opened.ok() && opened->sockets.empty()) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                                 ": the port is in use by another process, or "
                                                 "the host is not this machine's"));
    }
    if (opened.ok()) {
      return opened;
    }
    // Only what is in use may come free.
    if (!absl::IsUnavailable(opened.status()) || Clock::Real()->Now() >= end) {
      return Annotate(opened.status(), absl::StrCat("cannot listen on ", address));
    }
    absl::SleepFor(kBetweenTries);
  }
}

}  // namespace monsoon
