#include "common/data/file_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr char kWildcards[] = "*?[";

// What the patterns of the path's names match, one after another.
class Expansion {
 public:
  explicit Expansion(const DataRoots& roots) : roots_(roots) {}

  void Run(const std::string& path) {
    const std::vector<std::string> names = absl::StrSplit(path, '/', absl::SkipEmpty());
    found_ = {absl::StartsWith(path, "/") ? "/" : ""};
    for (size_t i = 0; i < names.size(); ++i) {
      Take(names[i], /*last=*/i + 1 == names.size());
    }
  }

  std::vector<std::string>& found() { return found_; }
  // Of a folder that could not be looked into; OK: there was none.
  const absl::Status& refused() const { return refused_; }

 private:
  void Take(const std::string& name, bool last) {
    std::vector<std::string> next;
    for (const std::string& folder : found_) {
      if (name.find_first_of(kWildcards) == std::string::npos) {
        const std::string path = folder + name;
        if (!last || roots_.Stat(path).ok()) {
          next.push_back(last ? path : path + "/");
        }
        continue;
      }
      for (const std::string& match : Matches(folder, name)) {
        next.push_back(last ? match : match + "/");
      }
    }
    found_ = std::move(next);
  }

  std::vector<std::string> Matches(const std::string& folder, const std::string& pattern) {
    const absl::StatusOr<std::vector<std::string>> names =
        roots_.Names(folder.empty() ? "." : folder);
    if (!names.ok()) {
      if (absl::IsPermissionDenied(names.status())) {
        refused_ = names.status();
      }
      return {};
    }
    std::vector<std::string> matches;
    for (const std::string& name : *names) {
      if (fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) {
        matches.push_back(folder + name);
      }
    }
    return matches;
  }

  const DataRoots& roots_;
  std::vector<std::string> found_;
  absl::Status refused_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path, const DataRoots& roots) {
  if (path.find_first_of(kWildcards) == std::string::npos || roots.Stat(path).ok()) {
    return std::vector<std::string>{path};
  }
  Expansion expansion(roots);
  expansion.Run(path);
  std::vector<std::string>& files = expansion.found();
  if (files.empty()) {
    RETURN_IF_ERROR(expansion.refused());
    return absl::NotFoundError(absl::StrCat("no file is named like ", path));
  }
  std::ranges::sort(files);
  return std::move(files);
}

}  // namespace monsoon
