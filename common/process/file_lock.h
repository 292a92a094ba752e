// FileLock: a file that one process at a time holds, until it ends, however it ends.
// The file says which process that is, and stays. Or several share it, and it says
// nothing.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class FileLock {
 public:
  // Makes the file in a folder that exists. FailedPrecondition names the process that
  // holds it; other errors name the path. Does not wait.
  static absl::StatusOr<FileLock> Take(const std::string& path);
  // Makes the file in a folder that exists, for several at a time; not one that is taken.
  // Waits for those only who look, for an instant.
  static absl::StatusOr<FileLock> Share(const std::string& path);
  // Whether somebody shares it, or has taken it. False where there is no such file, or it
  // cannot be looked at; true at times where somebody else looks at the same moment.
  static bool IsShared(const std::string& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  // not inherited by children, which would hold it on
};

}  // namespace monsoon
