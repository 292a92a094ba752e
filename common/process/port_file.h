// --port_file: how a daemon that listens on port 0 tells its parent where.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace monsoon {

// Writes "ADDRESS\n" to a temporary file beside `path` and renames it, so that
// a reader sees nothing or all. Errors name the file.
absl::Status WritePortFile(const std::string& path, const std::string& address);

}  // namespace monsoon
