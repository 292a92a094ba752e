// Parts of paths, as text: nothing is looked up, and ".." stays.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// "a/b" of "a/b/c" and of "a/b/c/", "/" of "/a", "." of "a".
std::string FolderOf(absl::string_view path);
// "c" of "a/b/c" and of "a/b/c/".
std::string NameOfPath(absl::string_view path);
// "a/b" of "a" and "b"; "b" where the folder is "".
std::string InFolder(absl::string_view folder, absl::string_view name);

}  // namespace monsoon
