#include "common/data/access/data_roots.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// As many as the kernel follows.
constexpr int kMostLinks = 40;
// A FIFO without a writer is opened at once, and no terminal becomes this process's.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

absl::Status SystemError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::UnavailableError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::Status CheckRegular(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot read ", path, ": ", S_ISDIR(info.st_mode) ? "it is a directory" : "not a file"));
}

std::vector<std::string> NamesOf(const std::string& path) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(path, '/')) {
    if (!name.empty() && name != ".") {
      names.emplace_back(name);
    }
  }
  return names;
}

bool BeginsWith(const std::vector<std::string>& names, const std::vector<std::string>& root) {
  return names.size() >= root.size() && std::equal(root.begin(), root.end(), names.begin());
}

absl::StatusOr<std::string> Absolute(const std::string& path) {
  if (absl::StartsWith(path, "/")) {
    return path;
  }
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  return error ? SystemError(path, error.value()) : absl::StatusOr<std::string>(here / path);
}

absl::StatusOr<std::string> LinkTarget(const std::string& path, int link) {
  char target[PATH_MAX];
  const ssize_t size = readlinkat(link, "", target, sizeof(target));
  if (size < 0 || size == sizeof(target)) {
    return SystemError(path, size < 0 ? errno : ENAMETOOLONG);
  }
  return std::string(target, static_cast<size_t>(size));
}

}  // namespace

// One path from its root down.
class DataRoots::Walk {
 public:
  Walk(const DataRoots& roots, const std::string& path) : roots_(roots), path_(path) {}

  absl::StatusOr<Found> Run() && {
    ASSIGN_OR_RETURN(const std::string absolute, Absolute(path_));
    RETURN_IF_ERROR(Begin(NamesOf(absolute)));
    while (!left_.empty()) {
      const std::string name = std::move(left_.front());
      left_.pop_front();
      if (name == "..") {
        if (folders_.size() == 1) {
          return roots_.Outside(path_, links_ > 0);
        }
        folders_.pop_back();
        continue;
      }
      UniqueFd at(openat(folders_.back().get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat info;
      if (!at.valid() || fstat(at.get(), &info) != 0) {
        return SystemError(path_, errno);
      }
      if (S_ISLNK(info.st_mode)) {
        RETURN_IF_ERROR(Follow(at.get()));
      } else if (S_ISDIR(info.st_mode)) {
        folders_.push_back(std::move(at));
      } else if (left_.empty()) {
        return Found{std::move(folders_.back()), name, info};
      } else {
        return SystemError(path_, ENOTDIR);
      }
    }
    Found found{std::move(folders_.back()), "", {}};
    if (fstat(found.folder.get(), &found.info) != 0) {
      return SystemError(path_, errno);
    }
    return found;
  }

 private:
  absl::Status Begin(const Parts& names) {
    const Root* const root = roots_.RootOf(names);
    if (root == nullptr) {
      return roots_.Outside(path_, links_ > 0);
    }
    const size_t above = BeginsWith(names, root->given) ? root->given.size() : root->real.size();
    left_.assign(names.begin() + static_cast<std::ptrdiff_t>(above), names.end());
    folders_.clear();
    folders_.emplace_back(open(root->path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return folders_.back().valid() ? absl::OkStatus() : SystemError(root->path, errno);
  }

  absl::Status Follow(int link) {
    if (++links_ > kMostLinks) {
      return SystemError(path_, ELOOP);
    }
    ASSIGN_OR_RETURN(const std::string target, LinkTarget(path_, link));
    Parts names = NamesOf(target);
    names.insert(names.end(), left_.begin(), left_.end());
    if (absl::StartsWith(target, "/")) {
      return Begin(names);
    }
    left_.assign(names.begin(), names.end());
    return absl::OkStatus();
  }

  const DataRoots& roots_;
  const std::string& path_;
  std::vector<UniqueFd> folders_;  // from the root down
  std::deque<std::string> left_;
  int links_ = 0;
};

absl::StatusOr<DataRoots> DataRoots::Below(const std::vector<std::string>& folders) {
  DataRoots roots = None();
  for (const std::string& folder : folders) {
    if (!absl::StartsWith(folder, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("the data folder \"", folder, "\" is no absolute path"));
    }
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(folder, error);
    if (error || !std::filesystem::is_directory(real, error)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the data folder ", folder, ": ", error ? error.message() : "it is not a folder"));
    }
    roots.roots_.push_back({folder, NamesOf(folder), NamesOf(real)});
  }
  return roots;
}

std::string DataRoots::Text() const {
  return absl::StrJoin(roots_, ", ",
                       [](std::string* out, const Root& root) { absl::StrAppend(out, root.path); });
}

const DataRoots::Root* DataRoots::RootOf(const Parts& names) const {
  const Root* outermost = nullptr;
  for (const Root& root : roots_) {
    if ((BeginsWith(names, root.given) || BeginsWith(names, root.real)) &&
        (outermost == nullptr || root.real.size() < outermost->real.size())) {
      outermost = &root;
    }
  }
  return outermost;
}

absl::Status DataRoots::Outside(const std::string& path, bool by_link) const {
  if (roots_.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path,
                     ": this worker opens no files for jobs; who owns its host allows the "
                     "files below a folder by `--data=DIR` of the worker"));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      path, by_link ? " leads by a link out of " : " is not below ", Text(),
      ", where alone this worker opens files for jobs; who owns its host allows more by "
      "`--data=DIR` of the worker, or data_roots of the cluster file"));
}

absl::StatusOr<DataRoots::Found> DataRoots::Find(const std::string& path) const {
  if (absl::StrContains(path, '\0')) {
    return absl::InvalidArgumentError("a path with a byte of 0 is none");
  }
  return Walk(*this, path).Run();
}

absl::StatusOr<struct stat> DataRoots::Stat(const std::string& path) const {
  if (!anywhere_) {
    ASSIGN_OR_RETURN(const Found found, Find(path));
    return found.info;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return SystemError(path, errno);
  }
  return info;
}

absl::StatusOr<UniqueFd> DataRoots::OpenFile(const std::string& path) const {
  UniqueFd file;
  if (anywhere_) {
    // Before it is opened: that alone does something to some devices.
    ASSIGN_OR_RETURN(const struct stat seen, Stat(path));
    RETURN_IF_ERROR(CheckRegular(path, seen));
    file.reset(open(path.c_str(), kReadFlags));
  } else {
    ASSIGN_OR_RETURN(const Found found, Find(path));
    RETURN_IF_ERROR(CheckRegular(path, found.info));
    file.reset(openat(found.folder.get(), found.name.c_str(), kReadFlags | O_NOFOLLOW));
  }
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return SystemError(path, errno);
  }
  RETURN_IF_ERROR(CheckRegular(path, info));
  return file;
}

absl::StatusOr<UniqueFd> DataRoots::OpenFolder(const std::string& path) const {
  UniqueFd folder;
  if (anywhere_) {
    folder.reset(open(path.c_str(), kReadFlags | O_DIRECTORY));
  } else {
    ASSIGN_OR_RETURN(const Found found, Find(path));
    if (!found.name.empty()) {
      return SystemError(path, ENOTDIR);
    }
    folder.reset(openat(found.folder.get(), ".", kReadFlags | O_DIRECTORY));
  }
  return folder.valid() ? absl::StatusOr<UniqueFd>(std::move(folder)) : SystemError(path, errno);
}

absl::Status DataRoots::Visit(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& name, int kind)> visit) const {
  ASSIGN_OR_RETURN(UniqueFd opened, OpenFolder(path));
  const std::unique_ptr<DIR, CloseFolder> folder(fdopendir(opened.get()));
  if (folder == nullptr) {
    return SystemError(path, errno);
  }
  opened.Release();
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr) {
      return errno == 0 ? absl::OkStatus() : SystemError(path, errno);
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      RETURN_IF_ERROR(visit(name, entry->d_type));
    }
  }
}

absl::StatusOr<std::vector<DataRoots::Entry>> DataRoots::List(const std::string& path) const {
  std::vector<Entry> entries;
  RETURN_IF_ERROR(Visit(path, [&](const std::string& name, int kind) {
    bool is_folder = kind == DT_DIR;
    if (kind == DT_LNK || kind == DT_UNKNOWN) {
      ASSIGN_OR_RETURN(const struct stat info, Stat(absl::StrCat(path, "/", name)));
      is_folder = S_ISDIR(info.st_mode);
    }
    entries.push_back({name, is_folder});
    return absl::OkStatus();
  }));
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

absl::StatusOr<std::vector<std::string>> DataRoots::Names(const std::string& path) const {
  std::vector<std::string> names;
  RETURN_IF_ERROR(Visit(path, [&](const std::string& name, int) {
    names.push_back(name);
    return absl::OkStatus();
  }));
  std::ranges::sort(names);
  return names;
}

}  // namespace monsoon
