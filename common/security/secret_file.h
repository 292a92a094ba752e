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

// What becomes of a file that is there already.
enum class Existing { kReplace, kKeep };

// In a folder that passes MakeSecretFolder. On the disk when it returns OK. AlreadyExists where
// there is a file that is to be kept, whoever has made it meanwhile.
absl::Status WriteSecretFile(const std::string& path, absl::string_view content,
                             Existing existing = Existing::kReplace);

// NotFound where there is none; FailedPrecondition where others than this user can read or write
// it, where it is another user's, a link or no plain file, or longer than a secret ever is.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace monsoon
