// Storage: the file operations that durable state is made of, as an interface, so
// that tests can let them fail, or cut the power between any two of them.
//
// A file's bytes are on the disk once Sync has returned OK, its name once SyncFolder
// of its folder has; Rename is atomic. Nothing is promised before that: after a power
// cut any part of what was not synced may be there.
//
// Errors name the operation, the path and the system's reason: NotFound for a missing
// file, ResourceExhausted for a full disk or quota, PermissionDenied, else Unavailable, unless
// an operation says otherwise.
//
// Thread safety: a Storage may be used by several threads, a file by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

// A file being written; its destructor closes it.
class StorageFile {
 public:
  virtual ~StorageFile() = default;
  // All of `bytes` at `offset`, which may lie beyond the end: the gap reads as zeros.
  // After an error any part of them may be there.
  virtual absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Once it has failed it fails for ever: a system may forget what it could not write,
  // and say OK the next time.
  virtual absl::Status Sync() = 0;
};

// A file being read.
class StorageReader {
 public:
  virtual ~StorageReader() = default;
  virtual uint64_t bytes() const = 0;  // when it was opened
  // Exactly out.size() bytes; DataLoss where the file ends before.
  virtual absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

class Storage {
 public:
  virtual ~Storage() = default;

  // Makes the file, or empties it. Its folder exists.
  virtual absl::StatusOr<std::unique_ptr<StorageFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<StorageReader>> Open(const std::string& path) const = 0;
  // Of a file; one that is called `to` is replaced.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK where there is none.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Only an empty one; OK where there is none.
  virtual absl::Status RemoveFolder(const std::string& path) = 0;
  // With the folders above it; OK where it is there. Their names are on the disk when
  // it returns.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Names in the folder, sorted; folders end with '/'. NotFound where it is missing,
  // InvalidArgument where it is no folder.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) const = 0;
  // Bytes that files may still take.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) const = 0;

  // The whole file, at most `limit` bytes: FailedPrecondition if it is longer.
  absl::StatusOr<std::string> ReadAll(const std::string& path, uint64_t limit) const;
  // Replaces the file at once or not at all: beside it, synced, renamed, the folder
  // synced.
  absl::Status WriteAll(const std::string& path, const std::string& content);
};

// The system's files, for what Monsoon keeps: files and folders that it makes are for its user
// alone (0600 and 0700, less the umask). One for the process; never destroyed.
Storage* PosixStorage();

// The same for what a user has asked for, as an exported model: the umask alone counts.
Storage* OutputStorage();

// What to say of a state folder that other users may look into; "": nothing. Such a folder is left
// as it is, since its owner may have meant it so.
std::string WideFolderWarning(const std::string& path);

}  // namespace monsoon
