#include "coordinator/launcher/up_lock.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/storage/file_path.h"
#include "common/storage/storage.h"

namespace monsoon {

std::string UpLockPath(const std::string& state_dir) {
  return absl::StrCat(state_dir, "/coordinator/up");
}

absl::StatusOr<FileLock> HoldUpLock(const std::string& state_dir) {
  const std::string path = UpLockPath(state_dir);
  RETURN_IF_ERROR(PosixStorage()->MakeFolder(FolderOf(path)));
  return FileLock::Share(path);
}

}  // namespace monsoon
