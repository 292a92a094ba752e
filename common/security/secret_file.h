// Files that only their owner can read: 0600, in folders of 0700. A file is written beside itself
// and renamed, so that a reader sees all of it or what was there before.
//
// Errors name the path and, where a mode is wrong, the command that mends it.
//
// Plain functions. Thread safe for different paths. Block on the disk.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

// Makes the folder, whose parent is there. FailedPrecondition where others can look into one that
// is there already, or where it belongs to another user or is none.
absl::Status MakeSecretFolder(const std::string& path);

// In a folder that passes MakeSecretFolder. What was there is replaced; on the disk when it
// returns OK.
absl::Status WriteSecretFile(const std::string& path, absl::string_view content);
// The same of a file that is not there: AlreadyExists, and nothing is changed, where one is. Of
// several who write at once one succeeds.
absl::Status WriteNewSecretFile(const std::string& path, absl::string_view content);

// NotFound where there is none; FailedPrecondition where others than this user can read or write
// it, where it is another user's, a link or no plain file, or longer than a secret ever is.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace monsoon
