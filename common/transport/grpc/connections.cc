#include "common/transport/grpc/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace monsoon {

void Connections::Note(int fd) {
  int highest = highest_;
  while (fd > highest && !highest_.compare_exchange_weak(highest, fd)) {
  }
}

std::string Connections::PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "";
  }
  char host[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", ntohs(four->sin_port));
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&address);
  const int port = ntohs(six->sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
    inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", port);
  }
  inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
  return absl::StrCat("ipv6:%5B", host, "%5D:", port);
}

bool Connections::Cut(const std::string& peer) const {
  for (int fd = 0; fd <= highest_; ++fd) {
    if (PeerOf(fd) == peer) {
      // A reset: what the peer still sends is not to fill the socket's buffer first.
      sockaddr nobody = {};
      nobody.sa_family = AF_UNSPEC;
      connect(fd, &nobody, sizeof(nobody));
      return true;
    }
  }
  return false;
}

}  // namespace monsoon
