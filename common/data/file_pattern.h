// The files that a path of a data set means.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"

namespace monsoon {

// `path` itself; or of a pattern (*, ? and [...] as in a shell) what it matches, sorted by bytes:
// at least one, else NotFound that names the pattern, or PermissionDenied where a folder could not
// be looked into. A file that has the pattern as its name is taken as that file. Blocks on the
// disk.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path, const DataRoots& roots);

}  // namespace monsoon
