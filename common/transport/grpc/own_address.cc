#include "common/transport/grpc/own_address.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

struct Name {
  sockaddr_storage address = {};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

// Where to connect to: of an address of all networks, at the loopback.
Name Target(int listener) {
  Name name;
  getsockname(listener, name.get(), &name.length);
  sockaddr_in loopback = {};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (name.address.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&name.address);
    if (four->sin_addr.s_addr != INADDR_ANY) {
      return name;
    }
    loopback.sin_port = four->sin_port;
  } else if (name.address.ss_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(&name.address);
    if (!IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) {
      return name;
    }
    loopback.sin_port = six->sin6_port;  // it takes IPv4 too
  } else {
    return name;
  }
  std::memcpy(&name.address, &loopback, sizeof(loopback));
  name.length = sizeof(loopback);
  return name;
}

// An end of a connection as both ends name it: a listener of IPv6 sees one of IPv4 as its own.
std::string Text(Name name) {
  const auto bytes = [](const void* data, size_t size) {
    return std::string(static_cast<const char*>(data), size);
  };
  if (name.address.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&name.address);
    return absl::StrCat("4", bytes(&four->sin_addr, sizeof(in_addr)),
                        bytes(&four->sin_port, sizeof(in_port_t)));
  }
  if (name.address.ss_family != AF_INET6) {
    return bytes(&name.address, name.length);
  }
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&name.address);
  constexpr size_t kMappedBytes = sizeof(in6_addr) - sizeof(in_addr);
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
  const size_t from = mapped ? kMappedBytes : 0;
  return absl::StrCat(mapped ? "4" : "6",
                      bytes(&six->sin6_addr.s6_addr[from], sizeof(in6_addr) - from),
                      bytes(&six->sin6_port, sizeof(in_port_t)));
}

// A connection that is dropped so leaves nothing behind in the kernel.
void EndAtOnce(const UniqueFd& fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace

OwnAddress::OwnAddress(int listener, absl::Duration every, absl::Duration now)
    : listener_(listener), every_(every), due_(now + every) {}

void OwnAddress::Work(absl::Duration now) {
  if (now < due_) {
    return;
  }
  if (!name_.empty()) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(connection_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    trouble_ = error != 0 ? std::strerror(error) : "a connection does not arrive";
  }
  Abandon();
  Connect();
  due_ = now + every_;
}

void OwnAddress::Connect() {
  Name target = Target(listener_);
  connection_ =
      UniqueFd(socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection_.valid()) {
    trouble_ = std::strerror(errno);
    return;
  }
  EndAtOnce(connection_);
  if (target.address.ss_family == AF_UNIX) {
    // Without a name of its own its other end would not know it.
    const sa_family_t family = AF_UNIX;
    sockaddr any = {};
    any.sa_family = family;
    bind(connection_.get(), &any, sizeof(family));
  }
  if (connect(connection_.get(), target.get(), target.length) != 0 && errno != EINPROGRESS) {
    trouble_ = errno == EAGAIN ? "its queue of new connections is full" : std::strerror(errno);
    Abandon();
    return;
  }
  Name own;
  getsockname(connection_.get(), own.get(), &own.length);
  name_ = Text(own);
}

void OwnAddress::Abandon() {
  connection_.reset();
  name_.clear();
}

bool OwnAddress::Arrived(const UniqueFd& connection) {
  Name peer;
  if (name_.empty() || getpeername(connection.get(), peer.get(), &peer.length) != 0 ||
      Text(peer) != name_) {
    return false;
  }
  EndAtOnce(connection);
  Abandon();
  trouble_.clear();
  return true;
}

}  // namespace monsoon
