#include "ps_server/checkpoint/state_folder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxEpochFile = 64;

// 0: no life has been here yet.
absl::StatusOr<uint64_t> ReadEpoch(const Storage& storage, const std::string& path) {
  const absl::StatusOr<std::string> text = storage.ReadAll(path, kMaxEpochFile);
  if (absl::IsNotFound(text.status())) {
    return 0;
  }
  RETURN_IF_ERROR(text.status());
  uint64_t epoch = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &epoch) || epoch == 0) {
    return absl::DataLossError(absl::StrCat(path,
                                            " holds no number; if no server uses this "
                                            "folder, delete the file"));
  }
  return epoch;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateFolder>> StateFolder::Open(Storage* storage,
                                                               const std::string& state_dir,
                                                               uint32_t task, int64_t unix_us) {
  const std::string folder = absl::StrCat(state_dir, "/ps-", task);
  RETURN_IF_ERROR(storage->MakeFolder(folder));
  ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(folder + "/lock"));
  const std::string epoch_file = folder + "/epoch";
  ASSIGN_OR_RETURN(const uint64_t last, ReadEpoch(*storage, epoch_file));
  const uint64_t epoch = std::max(last + 1, static_cast<uint64_t>(std::max<int64_t>(unix_us, 1)));
  MONSOON_FAIL_POINT_STATUS("epoch.before_claim");
  RETURN_IF_ERROR(storage->WriteAll(epoch_file, absl::StrCat(epoch, "\n")));
  MONSOON_FAIL_POINT_STATUS("epoch.claimed");
  return std::unique_ptr<StateFolder>(
      new StateFolder(storage, state_dir, task, epoch_file, std::move(lock), epoch));
}

absl::Status StateFolder::NoteWritten() const {
  return storage_->WriteAll(LastWriterPath(state_dir_, task_), absl::StrCat(epoch_, "\n"));
}

std::string StateFolder::own_folder() const { return FolderOf(epoch_file_); }

absl::Status StateFolder::CheckOwner() const {
  ASSIGN_OR_RETURN(const uint64_t newest, ReadEpoch(*storage_, epoch_file_));
  if (newest != epoch_) {
    return absl::FailedPreconditionError(absl::StrCat(epoch_file_, " is ", newest, ", not ", epoch_,
                                                      ": another server uses this folder"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
