#include "coordinator/launcher/port_probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/process/unique_fd.h"

namespace monsoon {
namespace {

using Inodes = std::set<std::string>;

constexpr char kTcpListen[] = "0A";

// Inodes of the sockets that listen on TCP port `port`. A line of the table:
//   sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
void FindTcpListeners(const char* table, uint16_t port, Inodes* inodes) {
  std::ifstream file(table);
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 10 || fields[3] != kTcpListen) {
      continue;
    }
    const std::string& local = fields[1];
    uint32_t local_port = 0;
    if (absl::SimpleHexAtoi(local.substr(local.rfind(':') + 1), &local_port) &&
        local_port == port) {
      inodes->insert(fields[9]);
    }
  }
}

// A line of the table: Num RefCount Protocol Flags Type St Inode Path
void FindUnixListeners(const std::string& path, Inodes* inodes) {
  std::ifstream file("/proc/net/unix");
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() >= 8 && fields[7] == path) {
      inodes->insert(fields[6]);
    }
  }
}

struct CloseDir {
  void operator()(DIR* folder) const { closedir(folder); }
};

bool HoldsSocket(const std::string& pid, const Inodes& inodes) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  const std::unique_ptr<DIR, CloseDir> fds(opendir(folder.c_str()));
  if (fds == nullptr) {
    return false;
  }
  while (const dirent* entry = readdir(fds.get())) {
    char target[64];
    const ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof(target) - 1);
    if (length <= 0) {
      continue;
    }
    target[length] = '\0';
    for (const std::string& inode : inodes) {
      if (absl::StrCat("socket:[", inode, "]") == target) {
        return true;
      }
    }
  }
  return false;
}

// "held by ps_server (pid 123)", or "" where it cannot be told.
std::string Holder(const Inodes& inodes) {
  const std::unique_ptr<DIR, CloseDir> processes(opendir("/proc"));
  if (processes == nullptr || inodes.empty()) {
    return "";
  }
  while (const dirent* entry = readdir(processes.get())) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || !HoldsSocket(entry->d_name, inodes)) {
      continue;
    }
    std::string name;
    std::ifstream comm(absl::StrCat("/proc/", pid, "/comm"));
    std::getline(comm, name);
    return absl::StrCat("held by ", name.empty() ? "a process" : name, " (pid ", pid, ")");
  }
  return "";
}

absl::Status Busy(const std::string& address, const Inodes& inodes) {
  const std::string holder = Holder(inodes);
  return absl::AlreadyExistsError(
      absl::StrCat(address, " is in use", holder.empty() ? "" : ", ", holder));
}

absl::Status CheckTcp(const std::string& text, const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = absl::StrCat(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": cannot resolve the host: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    const UniqueFd fd(socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
      continue;  // a family that this machine does not have
    }
    const int on = 1;  // as gRPC does: connections in TIME_WAIT do not matter
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd.get(), info->ai_addr, info->ai_addrlen) == 0) {
      continue;
    }
    if (errno == EADDRINUSE) {
      Inodes inodes;
      FindTcpListeners("/proc/net/tcp", address.port, &inodes);
      FindTcpListeners("/proc/net/tcp6", address.port, &inodes);
      return Busy(text, inodes);
    }
    if (errno == EACCES) {
      return absl::PermissionDeniedError(absl::StrCat(text, ": not allowed to listen there"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnix(const std::string& text, const Address& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), address.path.size());  // the parser bounds it
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat(text, ": cannot make a socket"));
  }
  // Connecting leaves no socket file behind, unlike binding.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    return absl::OkStatus();
  }
  Inodes inodes;
  FindUnixListeners(address.path, &inodes);
  return Busy(text, inodes);
}

}  // namespace

absl::Status CheckAddressFree(const std::string& address) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  return parsed.kind == Address::Kind::kTcp ? CheckTcp(address, parsed)
                                            : CheckUnix(address, parsed);
}

}  // namespace monsoon
