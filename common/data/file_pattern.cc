#include "common/data/file_pattern.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  struct stat info;
  if (path.find_first_of("*?[") == std::string::npos || stat(path.c_str(), &info) == 0) {
    return std::vector<std::string>{path};
  }
  glob_t found = {};
  const int code = glob(path.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files;
  if (code == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH) {
    return absl::UnavailableError(absl::StrCat("cannot look for files like ", path));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("no file is named like ", path));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace monsoon
