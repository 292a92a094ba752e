#include "common/transport/grpc/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr mode_t kMode = 0600;
constexpr mode_t kWrittenByOthers = 0022;

absl::Status NotFit(absl::string_view path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", why));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

// Who can change the folder can put a socket of their own at the path.
absl::Status CheckFolder(const std::string& folder) {
  struct stat facts;
  if (stat(folder.c_str(), &facts) != 0) {
    return NotFit(folder, std::strerror(errno));
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return NotFit(folder, absl::StrCat("the folder of the socket belongs to the user with the "
                                       "number ",
                                       facts.st_uid,
                                       ", who could put another socket in its "
                                       "place: use a folder of user ",
                                       geteuid()));
  }
  if ((facts.st_mode & kWrittenByOthers) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return NotFit(folder, absl::StrFormat("others can write to the folder of the socket (mode "
                                          "%04o), and could put another one in its place: chmod "
                                          "go-w %s",
                                          facts.st_mode & 07777u, folder));
  }
  return absl::OkStatus();
}

UniqueFd MakeSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Makes the path free: a bind does not replace what is there.
absl::Status RemoveDead(const std::string& path, const sockaddr_un& address) {
  struct stat facts;
  if (lstat(path.c_str(), &facts) != 0) {
    return absl::OkStatus();
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return NotFit(path, "is there already and is no socket: move it away");
  }
  const UniqueFd probe = MakeSocket();
  if (!probe.valid()) {
    return absl::UnavailableError(std::strerror(errno));
  }
  const bool refused =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  if (!refused) {
    return absl::UnavailableError("the socket is in use by another process");
  }
  return unlink(path.c_str()) == 0 || errno == ENOENT
             ? absl::OkStatus()
             : NotFit(path,
                      absl::StrCat("left by a process that has ended, and cannot be removed: ",
                                   std::strerror(errno)));
}

}  // namespace

absl::StatusOr<UnixListener> ListenAtPath(const std::string& path, int backlog) {
  sockaddr_un address = {};
  if (path.empty() || path.size() + 1 > sizeof(address.sun_path)) {
    return NotFit(path, "is no path of a socket");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  RETURN_IF_ERROR(CheckFolder(FolderOf(path)));
  RETURN_IF_ERROR(RemoveDead(path, address));
  UnixListener listener{.socket = MakeSocket(), .path = path};
  struct stat facts;
  // The file has the socket's mode from its first moment.
  if (!listener.socket.valid() || fchmod(listener.socket.get(), kMode) != 0 ||
      bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0 ||
      listen(listener.socket.get(), backlog) != 0 || lstat(path.c_str(), &facts) != 0) {
    return errno == EADDRINUSE ? absl::UnavailableError("the socket is in use by another process")
                               : NotFit(path, std::strerror(errno));
  }
  listener.inode = facts.st_ino;
  return listener;
}

void RemoveSocketFile(const std::string& path, ino_t inode) {
  struct stat facts;
  if (lstat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode) && facts.st_ino == inode) {
    unlink(path.c_str());
  }
}

}  // namespace monsoon
