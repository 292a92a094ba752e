#include "common/process/runtime_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/process/unique_fd.h"

namespace monsoon {
namespace {

constexpr mode_t kMode = 0700;
constexpr mode_t kOfOthers = 0077;
constexpr mode_t kWrittenByOthers = 0022;
// The end of an address is a zero.
constexpr size_t kMostPathBytes = sizeof(sockaddr_un::sun_path) - 1;
constexpr char kElsewhere[] = "or set XDG_RUNTIME_DIR to a folder of this user with mode 0700";

// Whether the variable's folder is one that this user alone decides on. That of another user is
// left in the environment by su and sudo.
bool IsOwn(const std::string& folder) {
  struct stat facts;
  return !folder.empty() && folder[0] == '/' && stat(folder.c_str(), &facts) == 0 &&
         S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & kWrittenByOthers) == 0;
}

bool Fits(const std::string& folder, size_t name_bytes) {
  return folder.size() + 1 + name_bytes <= kMostPathBytes;
}

absl::Status Refused(const std::string& path, absl::string_view why, absl::string_view mend) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", why, ": ", mend));
}

absl::Status Check(const std::string& path, const struct stat& facts) {
  const std::string away = absl::StrCat("move it away, ", kElsewhere);
  if (!S_ISDIR(facts.st_mode)) {
    return Refused(path, "is no folder", away);
  }
  if (facts.st_uid != geteuid()) {
    return Refused(path,
                   absl::StrCat("belongs to the user with the number ", facts.st_uid,
                                ", not to this one, ", geteuid()),
                   away);
  }
  if ((facts.st_mode & kOfOthers) != 0) {
    return Refused(path,
                   absl::StrFormat("can be entered by others than its owner (mode %04o)",
                                   facts.st_mode & 07777u),
                   absl::StrFormat("chmod %o %s", kMode, path));
  }
  return absl::OkStatus();
}

}  // namespace

RuntimeFolder::Places RuntimeFolder::OfEnvironment() {
  const char* const value = std::getenv("XDG_RUNTIME_DIR");
  return {.xdg_runtime_dir = value == nullptr ? "" : value, .tmp = "/tmp"};
}

absl::StatusOr<RuntimeFolder> RuntimeFolder::Open(const Places& places, size_t name_bytes) {
  std::string path = absl::StrCat(places.xdg_runtime_dir, "/monsoon");
  if (!IsOwn(places.xdg_runtime_dir) || !Fits(path, name_bytes)) {
    path = absl::StrCat(places.tmp, "/monsoon-", geteuid());
  }
  if (!Fits(path, name_bytes)) {
    return Refused(path, "is too long for the address of a socket",
                   absl::StrCat("a shorter one is needed, ", kElsewhere));
  }
  if (mkdir(path.c_str(), kMode) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", path));
  }
  return Look(path);
}

absl::StatusOr<RuntimeFolder> RuntimeFolder::Look(const std::string& path) {
  // What is looked at is what is there, not what it leads to.
  const UniqueFd folder(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts;
  if (!folder.valid() || fstat(folder.get(), &facts) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at the folder ", path));
  }
  if (S_ISLNK(facts.st_mode)) {
    return Refused(path, "is a link", absl::StrCat("move it away, ", kElsewhere));
  }
  if (absl::Status status = Check(path, facts); !status.ok()) {
    return status;
  }
  return RuntimeFolder{.path = path, .id = absl::StrFormat("%x:%d", facts.st_dev, facts.st_ino)};
}

std::string FolderOfSocket(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? "" : std::string(path.substr(0, slash));
}

}  // namespace monsoon
