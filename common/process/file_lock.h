// FileLock: a file that one process at a time holds, until it ends, however it ends.
// The file says which process that is, and stays.
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

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  // not inherited by children, which would hold it on
};

}  // namespace monsoon
