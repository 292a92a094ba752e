#include "common/transport/grpc/listen_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
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

namespace monsoon {
namespace {

constexpr absl::Duration kBetweenTries = absl::Milliseconds(20);

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

// Those of `endpoints` that are this machine's; at port 0, all at one that is free.
// Unavailable: one is in use.
absl::StatusOr<std::vector<Endpoint>> Free(const std::vector<Endpoint>& endpoints) {
  std::vector<Endpoint> free;
  std::vector<UniqueFd> held;
  uint16_t drawn = 0;
  for (Endpoint endpoint : endpoints) {
    UniqueFd fd(socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
      continue;  // a kernel without this family
    }
    const bool any = *endpoint.port() == 0;
    if (any) {
      *endpoint.port() = drawn;
    } else {
      // Connections that have ended do not hold a port.
      const int on = 1;
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (bind(fd.get(), endpoint.get(), endpoint.length) != 0) {
      if (errno == EADDRINUSE) {
        return absl::UnavailableError(
            absl::StrCat(endpoint.Text(), " is in use by another process"));
      }
      continue;
    }
    if (any) {
      getsockname(fd.get(), endpoint.get(), &endpoint.length);
      drawn = *endpoint.port();
    }
    held.push_back(std::move(fd));
    free.push_back(endpoint);
  }
  return free;
}

absl::Status AbstractFree(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    return absl::OkStatus();  // gRPC's to say
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (fd.valid() && bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 &&
      errno == EADDRINUSE) {
    return absl::UnavailableError("the socket is in use by another process");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Try(const std::string& text, const Address& address) {
  if (address.kind == Address::Kind::kUnixAbstract) {
    RETURN_IF_ERROR(AbstractFree(address.path));
  }
  if (address.kind != Address::Kind::kTcp) {
    return std::vector<std::string>{text};  // gRPC replaces what a dead process left of a path
  }
  ASSIGN_OR_RETURN(std::vector<Endpoint> endpoints, Free(Resolve(address)));
  std::vector<std::string> texts;
  for (Endpoint& endpoint : endpoints) {
    texts.push_back(endpoint.Text());
  }
  return texts.size() < 2 ? std::vector<std::string>{text} : texts;
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

absl::StatusOr<std::vector<std::string>> ListenAddresses(const std::string& address,
                                                         absl::Duration timeout) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  const absl::Duration end = Clock::Real()->Now() + timeout;
  while (true) {
    absl::StatusOr<std::vector<std::string>> texts = Try(address, parsed);
    if (texts.ok()) {
      return texts;
    }
    if (Clock::Real()->Now() >= end) {
      return Annotate(texts.status(), absl::StrCat("cannot listen on ", address));
    }
    absl::SleepFor(kBetweenTries);
  }
}

}  // namespace monsoon
