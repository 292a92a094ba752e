// PortFolder: where the tasks of one `up` write their port files.
//
// A lock on the folder, which the kernel drops with the process, tells whether
// its owner lives: what a killed `up` left behind, the next one removes.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

class PortFolder {
 public:
  // Makes a folder monsoon-up-* in `root` and removes this user's others there
  // that no process owns.
  static absl::StatusOr<std::unique_ptr<PortFolder>> Make(const std::string& root);
  // TMPDIR, else /tmp.
  static std::string DefaultRoot();

  // Removes the folder with its files.
  ~PortFolder();

  const std::string& path() const { return path_; }

 private:
  PortFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace monsoon
