// Unix sockets at files, for the control connection of a shared-memory transport: it carries file
// descriptors, and its end tells each side that the other one is gone.
//
// Sockets keep message boundaries (SOCK_SEQPACKET), do not block and are closed
// on exec. A peer of another user is refused with PermissionDenied.
//
// Thread safe: these are functions over descriptors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/process/unique_fd.h"

namespace monsoon {

// Longer messages are refused.
inline constexpr size_t kMaxSocketMessageBytes = 4096;
inline constexpr size_t kMaxSocketMessageFds = 4;

// Makes the file `path`, which only its owner can connect to, whatever the umask. Unavailable when
// it is there already or cannot be made.
absl::StatusOr<UniqueFd> ListenAt(const std::string& path);

// The next connection. Unavailable when there is none.
absl::StatusOr<UniqueFd> AcceptSameUser(int listener);

// NotFound when nobody listens there, or there is no such file; Unavailable when too many wait to
// be accepted.
absl::StatusOr<UniqueFd> ConnectTo(const std::string& path);

// Sends one message with descriptors, which stay the caller's. Unavailable
// when the peer is gone or does not read.
absl::Status SendSocketMessage(int socket, absl::string_view bytes, std::span<const int> fds);

struct SocketMessage {
  std::string bytes;  // never empty
  std::vector<UniqueFd> fds;
};
// Waits for one message. Unavailable when the peer is gone, DeadlineExceeded
// after `timeout`.
absl::StatusOr<SocketMessage> ReceiveSocketMessage(int socket, absl::Duration timeout);

// Whether the peer still holds its end. One system call.
bool IsConnected(int socket);

}  // namespace monsoon
