#include "common/process/peer_user.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

absl::StatusOr<PeerUser> PeerUserOf(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("SO_PEERCRED: ", std::strerror(errno)));
  }
  return PeerUser{.uid = peer.uid, .pid = peer.pid};
}

bool IsUnixSocket(int socket) {
  int family = 0;
  socklen_t length = sizeof(family);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_UNIX;
}

}  // namespace monsoon
