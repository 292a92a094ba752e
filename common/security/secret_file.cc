#include "common/security/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/process/unique_fd.h"

namespace monsoon {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kOfOthers = 0077;
// A key and two certificates have 2 KiB.
constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kTemporaryBytes = 8;

absl::Status SystemError(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot ", what));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

// `fd` is open at `path`, so that what is looked at is what is used.
absl::Status CheckOwner(const std::string& path, int fd, bool folder) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) {
    return SystemError(path, "look at");
  }
  if (folder ? !S_ISDIR(facts.st_mode) : !S_ISREG(facts.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no ", folder ? "folder" : "plain file"));
  }
  if (facts.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to the user with the number ",
                                                      facts.st_uid, ", not to this one, ",
                                                      geteuid(), ": chown ", geteuid(), " ", path));
  }
  if ((facts.st_mode & kOfOthers) != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("others than its owner can get at %s (mode %04o): chmod %o %s", path,
                        facts.st_mode & 07777u, folder ? kFolderMode : kFileMode, path));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenFolder(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    return SystemError(path, "open the folder");
  }
  RETURN_IF_ERROR(CheckOwner(path, folder.get(), /*folder=*/true));
  return folder;
}

// Writes all of `content` to the disk.
absl::Status WriteWhole(const std::string& path, absl::string_view content, int fd) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return SystemError(path, "write");
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(fd) == 0 ? absl::OkStatus() : SystemError(path, "flush");
}

absl::Status WriteNew(const std::string& path, absl::string_view content) {
  // The mode counts from the first moment: nobody can open the file before.
  const UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) {
    return SystemError(path, "create");
  }
  return WriteWhole(path, content, file.get());
}

// Gives the whole file its name, and takes the other one away.
absl::Status Place(const std::string& temporary, const std::string& path, Existing existing) {
  if (existing == Existing::kReplace) {
    return rename(temporary.c_str(), path.c_str()) == 0 ? absl::OkStatus()
                                                        : SystemError(path, "replace");
  }
  // Unlike a rename, a link replaces nothing.
  if (link(temporary.c_str(), path.c_str()) != 0) {
    return errno == EEXIST ? absl::AlreadyExistsError(absl::StrCat(path, " is there already"))
                           : SystemError(path, "make");
  }
  unlink(temporary.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeSecretFolder(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return SystemError(path, "make the folder");
  }
  return OpenFolder(path).status();
}

absl::Status WriteSecretFile(const std::string& path, absl::string_view content,
                             Existing existing) {
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenFolder(FolderOf(path)));
  const std::string temporary =
      absl::StrCat(path, ".", absl::BytesToHexString(RandomBytes(kTemporaryBytes)));
  absl::Status status = WriteNew(temporary, content);
  if (status.ok()) {
    status = Place(temporary, path, existing);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  // Some file systems cannot flush a folder and say EINVAL.
  return fsync(folder.get()) == 0 || errno == EINVAL ? absl::OkStatus()
                                                     : SystemError(FolderOf(path), "flush");
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  // Not blocking: a FIFO is opened, and refused, without a writer.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a link, not a plain file"));
  }
  if (!file.valid()) {
    return SystemError(path, "open");
  }
  RETURN_IF_ERROR(CheckOwner(path, file.get(), /*folder=*/false));
  std::string content(kMostBytes + 1, '\0');
  size_t filled = 0;
  ssize_t taken = 1;
  while (taken > 0 && filled < content.size()) {
    taken = read(file.get(), content.data() + filled, content.size() - filled);
    if (taken < 0 && errno != EINTR) {
      return SystemError(path, "read");
    }
    filled += taken > 0 ? static_cast<size_t>(taken) : 0;
    taken = taken < 0 ? 1 : taken;
  }
  if (filled > kMostBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has more than ", kMostBytes, " bytes: it is no file of ours"));
  }
  content.resize(filled);
  return content;
}

}  // namespace monsoon
