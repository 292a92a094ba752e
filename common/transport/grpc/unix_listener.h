// A listening socket at a path, which no other user can connect to or put one in the place of:
// the file has mode 0600, and its folder is one that only this user or root can change, or where
// each can change what is their own (the sticky bit, as of /tmp).
//
// Plain functions, thread safe for different paths.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

struct UnixListener {
  UniqueFd socket;  // non-blocking
  std::string path;
  ino_t inode = 0;  // of the file
};

// Replaces what a dead process has left of a socket. Unavailable: another process listens there;
// FailedPrecondition, which says what mends it: the folder or what lies there is not fit, or the
// file cannot be made.
absl::StatusOr<UnixListener> ListenAtPath(const std::string& path, int backlog);

// Removes the file, if it is still the listener's.
void RemoveSocketFile(const std::string& path, ino_t inode);

}  // namespace monsoon
