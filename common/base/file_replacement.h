// FileReplacement: a file that is written beside `path` and takes its place in Finish,
// so that a reader of `path` sees all of it or none; without Finish nothing is left.
// For what users ask for by name; durable state goes through common/storage.
//
//   ASSIGN_OR_RETURN(FileReplacement file, FileReplacement::Create(path));
//   RETURN_IF_ERROR(file.Write(bytes));
//   RETURN_IF_ERROR(file.Finish());
//
// Thread safety: none. Blocks on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

class FileReplacement {
 public:
  // Makes the temporary file. Errors, here and below, name the file and the system's
  // reason.
  static absl::StatusOr<FileReplacement> Create(const std::string& path);

  FileReplacement(FileReplacement&&) = default;
  FileReplacement& operator=(FileReplacement&&) = delete;
  ~FileReplacement();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // written

  // Appends.
  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Write(absl::string_view text);

  // In place of what was written there; nothing of it is beyond the end.
  absl::Status WriteAt(uint64_t offset, absl::string_view text);

  // Flushes to the disk and renames. Call once, last.
  absl::Status Finish();

 private:
  struct CloseFile {
    void operator()(FILE* file) const { fclose(file); }
  };

  FileReplacement(std::string path, std::string temporary, FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

  std::string path_;
  std::string temporary_;
  std::unique_ptr<FILE, CloseFile> file_;  // null once it is renamed
  uint64_t bytes_ = 0;
};

}  // namespace monsoon
