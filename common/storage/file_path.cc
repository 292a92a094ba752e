#include "common/storage/file_path.h"

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// Without slashes at the end, but for a path of slashes alone.
absl::string_view Trimmed(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') {
    path.remove_suffix(1);
  }
  return path;
}

}  // namespace

std::string FolderOf(absl::string_view path) {
  path = Trimmed(path);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) {
    return ".";
  }
  return std::string(Trimmed(path.substr(0, slash == 0 ? 1 : slash)));
}

std::string NameOfPath(absl::string_view path) {
  path = Trimmed(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

std::string InFolder(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) {
    return std::string(name);
  }
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

}  // namespace monsoon
