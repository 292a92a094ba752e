#include "common/transport/shm/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/process/peer_user.h"

namespace monsoon {
namespace {

constexpr int kBacklog = 512;
constexpr mode_t kMode = 0600;

absl::Status SystemError(absl::StatusCode code, absl::string_view what) {
  return absl::Status(code, absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<sockaddr_un> MakeAddress(const std::string& path) {
  sockaddr_un address = {};
  if (path.empty() || path.size() + 1 > sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" is no path of a Unix socket"));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd MakeSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

absl::Status CheckSameUser(int fd) {
  ASSIGN_OR_RETURN(const PeerUser peer, PeerUserOf(fd));
  if (peer.uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("the peer (pid ", peer.pid, ") runs as user ",
                                                    peer.uid, ", this process as user ",
                                                    geteuid()));
  }
  return absl::OkStatus();
}

// Takes over the descriptors of a received message.
std::vector<UniqueFd> TakeFds(msghdr* message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

// Unavailable with EAGAIN's text when there is no message.
absl::StatusOr<SocketMessage> TryReceive(int socket, bool* would_block) {
  SocketMessage result;
  result.bytes.resize(kMaxSocketMessageBytes);
  iovec piece = {result.bytes.data(), result.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxSocketMessageFds * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  *would_block = size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (size < 0) {
    return SystemError(absl::StatusCode::kUnavailable, "the control connection");
  }
  result.fds = TakeFds(&message);
  if (size == 0) {
    return absl::UnavailableError("the peer closed the control connection");
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::InvalidArgumentError("a control message is longer than allowed");
  }
  result.bytes.resize(static_cast<size_t>(size));
  return result;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, MakeAddress(path));
  UniqueFd fd = MakeSocket();
  // The file has the socket's mode from its first moment.
  if (!fd.valid() || fchmod(fd.get(), kMode) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(absl::StatusCode::kUnavailable, absl::StrCat("cannot listen at ", path));
  }
  if (listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    unlink(path.c_str());
    errno = error;
    return SystemError(absl::StatusCode::kUnavailable, absl::StrCat("cannot listen at ", path));
  }
  return fd;
}

absl::StatusOr<UniqueFd> AcceptSameUser(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    return SystemError(absl::StatusCode::kUnavailable, "accept");
  }
  RETURN_IF_ERROR(CheckSameUser(fd.get()));
  return fd;
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, MakeAddress(path));
  UniqueFd fd = MakeSocket();
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const bool nobody = fd.valid() && (errno == ECONNREFUSED || errno == ENOENT);
    return SystemError(nobody ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot connect to ", path));
  }
  RETURN_IF_ERROR(CheckSameUser(fd.get()));
  return fd;
}

absl::Status SendSocketMessage(int socket, absl::string_view bytes, std::span<const int> fds) {
  if (bytes.empty() || bytes.size() > kMaxSocketMessageBytes || fds.size() > kMaxSocketMessageFds) {
    return absl::InvalidArgumentError("a control message is empty or too long");
  }
  iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxSocketMessageFds * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? SystemError(absl::StatusCode::kUnavailable, "the control connection")
                  : absl::OkStatus();
}

absl::StatusOr<SocketMessage> ReceiveSocketMessage(int socket, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real()->Now() + timeout;
  while (true) {
    bool would_block = false;
    absl::StatusOr<SocketMessage> message = TryReceive(socket, &would_block);
    if (message.ok() || !would_block) {
      return message;
    }
    const absl::Duration left = deadline - Clock::Real()->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("no answer on the control connection within ",
                                                      absl::FormatDuration(timeout)));
    }
    pollfd poll_fd = {socket, POLLIN, 0};
    poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

bool IsConnected(int socket) {
  pollfd poll_fd = {socket, POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) == 0 || (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

}  // namespace monsoon
