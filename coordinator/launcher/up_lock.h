// UpLock: what an `up` shows to other processes of its machine while it runs the
// coordinator: the lock STATE_DIR/coordinator/up, which the kernel drops with the process.
// One that asks for the coordinator in vain knows by it that it is started again.
//
// Thread safety: pure functions. They block on the disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/process/file_lock.h"

namespace monsoon {

std::string UpLockPath(const std::string& state_dir);
// Makes the folder. Several may hold it: an `up` that finds the coordinator's address busy
// ends by itself.
absl::StatusOr<FileLock> HoldUpLock(const std::string& state_dir);

}  // namespace monsoon
