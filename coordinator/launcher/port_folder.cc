#include "coordinator/launcher/port_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr char kPrefix[] = "monsoon-up-";
constexpr int kTries = 10;

struct CloseDir {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseDir>;

// The lock on a folder of ours; invalid when it is somebody's, or no such
// folder.
UniqueFd Lock(const std::string& path) {
  // Not for children: the lock must end with this process.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || info.st_uid != geteuid() ||
      flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return UniqueFd();
  }
  return fd;
}

// Whether `path` still names the open folder.
bool IsStill(const UniqueFd& fd, const std::string& path) {
  struct stat open_folder, named;
  return fstat(fd.get(), &open_folder) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_folder.st_dev == named.st_dev && open_folder.st_ino == named.st_ino;
}

void Remove(const std::string& path) {
  if (const Folder folder{opendir(path.c_str())}) {
    while (const dirent* entry = readdir(folder.get())) {
      unlinkat(dirfd(folder.get()), entry->d_name, 0);
    }
  }
  rmdir(path.c_str());
}

void RemoveStale(const std::string& root) {
  const Folder folder{opendir(root.c_str())};
  if (folder == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(folder.get())) {
    if (absl::StartsWith(entry->d_name, kPrefix)) {
      const std::string path = absl::StrCat(root, "/", entry->d_name);
      if (const UniqueFd lock = Lock(path); lock.valid() && IsStill(lock, path)) {
        Remove(path);
      }
    }
  }
}

}  // namespace

std::string PortFolder::DefaultRoot() {
  const char* root = getenv("TMPDIR");
  return root != nullptr && *root != '\0' ? root : "/tmp";
}

absl::StatusOr<std::unique_ptr<PortFolder>> PortFolder::Make(const std::string& root) {
  RemoveStale(root);
  std::string path;
  for (int i = 0; i < kTries; ++i) {
    path = absl::StrCat(root, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", path));
    }
    // Until it is locked, another `up` may take it for a stale one.
    UniqueFd lock = Lock(path);
    if (lock.valid() && IsStill(lock, path)) {
      return std::unique_ptr<PortFolder>(new PortFolder(std::move(path), std::move(lock)));
    }
  }
  return absl::UnavailableError(absl::StrCat("cannot lock the folder ", path));
}

PortFolder::~PortFolder() { Remove(path_); }

}  // namespace monsoon
