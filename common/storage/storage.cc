#include "common/storage/storage.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/storage/file_path.h"

namespace monsoon {

absl::StatusOr<std::string> Storage::ReadAll(const std::string& path, uint64_t limit) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<StorageReader> file, Open(path));
  if (file->bytes() > limit) {
    return absl::FailedPreconditionError(absl::StrCat(
        "read ", path, ": it has ", file->bytes(), " bytes, more than ", limit, " are not read"));
  }
  std::string content(file->bytes(), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(content))));
  return content;
}

absl::Status Storage::WriteAll(const std::string& path, const std::string& content) {
  const std::string folder = FolderOf(path);
  const std::string temporary = InFolder(folder, absl::StrCat(".tmp-", NameOfPath(path)));
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<StorageFile> file, Create(temporary));
    RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(content))));
    RETURN_IF_ERROR(file->Sync());
    return Rename(temporary, path);
  };
  if (absl::Status status = write(); !status.ok()) {
    // What went wrong first is told; the leftover does no harm.
    Remove(temporary).IgnoreError();
    return status;
  }
  return SyncFolder(folder);
}

}  // namespace monsoon
