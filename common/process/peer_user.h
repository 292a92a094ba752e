// Who is at the other end of a Unix socket, as the kernel knows it: the user and process that had
// connected, or had begun to listen. A peer cannot pretend to be another one.
//
// Plain functions, thread safe; one system call each.
#pragma once

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace monsoon {

struct PeerUser {
  uid_t uid = 0;
  pid_t pid = 0;  // 0: of a name space that this process does not see
};

// PermissionDenied where the system does not tell.
absl::StatusOr<PeerUser> PeerUserOf(int socket);

// Whether `peer` may talk to a server of the user `own`: it is that user, or root, who can read
// all that the server has anyway.
inline bool IsUserOrRoot(const PeerUser& peer, uid_t own) {
  return peer.uid == own || peer.uid == 0;
}

// Whether the socket is one of the family AF_UNIX.
bool IsUnixSocket(int socket);

}  // namespace monsoon
