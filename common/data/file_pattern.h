// The files that a path of a data set means.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace monsoon {

// `path` itself; or of a pattern (*, ? and [...] as in a shell) what it matches, sorted by bytes:
// at least one, else NotFound that names the pattern. A file that has the pattern as its name is
// taken as that file. Blocks on the disk.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path);

}  // namespace monsoon
