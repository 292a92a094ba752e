#include "common/transport/shm/socket_file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/transport/shm/host_id.h"
#include "common/transport/shm/unix_socket.h"

namespace monsoon {
namespace {

constexpr char kPrefix[] = "shm-";
constexpr size_t kDigits = 16;
// Of a socket that does not listen yet.
constexpr char kNew[] = ".new";
constexpr size_t kNameBytes = sizeof(kPrefix) - 1 + kDigits + sizeof(kNew) - 1;
// Between the file and its name lie two system calls; a process may be stopped there.
constexpr time_t kLongestBirthSeconds = 60;
// Names that one server looks at for dead ones.
constexpr int kMostLookedAt = 1024;

bool IsName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kPrefix) && name.size() == kDigits &&
         std::ranges::all_of(name, [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

bool IsOld(const std::string& path) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 &&
         std::time(nullptr) - facts.st_mtime > kLongestBirthSeconds;
}

// Whether nobody listens there, and nobody will.
bool IsDead(const std::string& path, bool is_new) {
  return absl::IsNotFound(ConnectTo(path).status()) && (!is_new || IsOld(path));
}

void RemoveDead(const std::string& folder) {
  const std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })> files(
      opendir(folder.c_str()));
  for (int i = 0; files != nullptr && i < kMostLookedAt; ++i) {
    const dirent* const entry = readdir(files.get());
    if (entry == nullptr) {
      break;
    }
    absl::string_view name = entry->d_name;
    const bool is_new = absl::ConsumeSuffix(&name, kNew);
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    if (IsName(name) && IsDead(path, is_new)) {
      unlink(path.c_str());
    }
  }
}

}  // namespace

absl::StatusOr<SocketFile> SocketFile::Listen(const RuntimeFolder::Places& places) {
  ASSIGN_OR_RETURN(const RuntimeFolder folder, RuntimeFolder::Open(places, kNameBytes));
  RemoveDead(folder.path);
  const std::string path = absl::StrFormat("%s/%s%016x", folder.path, kPrefix, RandomId());
  const std::string born = absl::StrCat(path, kNew);
  ASSIGN_OR_RETURN(UniqueFd fd, ListenAt(born));
  struct stat facts;
  if (rename(born.c_str(), path.c_str()) != 0 || lstat(path.c_str(), &facts) != 0) {
    const int error = errno;
    unlink(born.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("cannot name the socket ", path));
  }
  return SocketFile(std::move(fd), path, folder.id, facts.st_ino);
}

SocketFile::SocketFile(UniqueFd fd, std::string path, std::string folder_id, ino_t inode)
    : fd_(std::move(fd)), path_(std::move(path)), folder_id_(std::move(folder_id)), inode_(inode) {}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::exchange(other.path_, "")),
      folder_id_(std::move(other.folder_id_)),
      inode_(other.inode_) {}

SocketFile::~SocketFile() {
  if (!path_.empty() && IsThere()) {
    unlink(path_.c_str());
  }
}

bool SocketFile::IsThere() const {
  struct stat facts;
  return lstat(path_.c_str(), &facts) == 0 && facts.st_ino == inode_;
}

SharedMemoryOffer SocketFile::offer() const {
  SharedMemoryOffer offer;
  offer.set_socket(path_);
  offer.set_host(HostId(folder_id_));
  return offer;
}

absl::StatusOr<UniqueFd> ConnectToOffer(const SharedMemoryOffer& offer) {
  if (!IsThisHost(offer.host())) {
    return absl::FailedPreconditionError("the peer is on another host");
  }
  const std::string path = FolderOfSocket(offer.socket());
  if (path.empty() || !IsName(absl::string_view(offer.socket()).substr(path.size() + 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("what the peer offers is no socket of shared memory: ", offer.socket()));
  }
  absl::StatusOr<RuntimeFolder> folder = RuntimeFolder::Look(path);
  if (absl::IsNotFound(folder.status()) || (folder.ok() && offer.host() != HostId(folder->id))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the peer's folder ", path,
        " is not seen here: it was removed, or one of the two runs in a container without it"));
  }
  RETURN_IF_ERROR(folder.status());
  absl::StatusOr<UniqueFd> socket = ConnectTo(offer.socket());
  if (absl::IsNotFound(socket.status())) {
    return absl::UnavailableError(socket.status().message());
  }
  return socket;
}

}  // namespace monsoon
