// A Storage in memory, for tests: it knows what is on the disk and what only the
// system has heard of, lets operations fail, and shows what a power cut may leave.
//
// After a power cut
//   - what was synced is there;
//   - of a file's later writes each block of 4 KiB has the first few, none or all, and
//     the file any length between its shortest and its longest since its last Sync;
//   - of the names made, renamed and removed since the last SyncFolder each is there or
//     not, alone.
//
// Links are not there, and folders cannot be renamed. Paths are kept as they are
// written, less doubled slashes; "/" and "." are folders.
//
// Thread safety: full; a file by one at a time. It outlives its files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/storage/storage.h"

namespace monsoon {

class SimulatedStorage : public Storage {
 public:
  SimulatedStorage();
  ~SimulatedStorage() override;

  // Operations that write: Create, WriteAt, Sync, Rename, Remove, RemoveFolder,
  // MakeFolder and SyncFolder, failed ones too.
  uint64_t operations() const;
  // The n-th of them from now on (1: the next) and all later ones fail with `status`;
  // a write that fails leaves any part of itself.
  void FailAfter(uint64_t n, absl::Status status);
  // Reads of the file fail with `status`, `count` of them from the n-th on (1: the next).
  // Opening it is none.
  void FailReads(const std::string& path, uint64_t n, uint64_t count, absl::Status status);
  // Nothing fails any more.
  void ClearFailure();
  // Bytes that all files together may have; writes beyond are ResourceExhausted.
  void SetCapacity(uint64_t bytes);

  // As it may look after a power cut now; the same for the same seed.
  std::unique_ptr<SimulatedStorage> PowerCut(uint64_t seed) const;
  // What it holds now, on a disk of its own.
  std::unique_ptr<SimulatedStorage> Copy() const;

  // Turns a bit over, on the disk too. The file has the byte.
  void CorruptByte(const std::string& path, uint64_t offset, int bit);
  // Cuts the file short, on the disk too.
  void Truncate(const std::string& path, uint64_t bytes);

  absl::StatusOr<std::unique_ptr<StorageFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(const std::string& path) const override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveFolder(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) const override;

 private:
  class Node;
  class File;
  class Reader;
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  // `node` was called `from` and is called `to`: "" for one that is made or removed.
  struct NameChange {
    std::string from;
    std::string to;
    std::shared_ptr<Node> node;
    bool from_synced = false;
    bool to_synced = false;
    void Apply(Names* names) const;
  };

  struct ReadFailure {
    uint64_t before = 0;  // so many succeed
    uint64_t count = 0;   // and so many fail
    absl::Status status;
  };

  // The error that the next read of the file is to have.
  absl::Status BeginRead(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the operation; the error that it is to have.
  absl::Status Begin(absl::string_view operation, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(Node* node, const std::string& path, uint64_t offset,
                     std::span<const std::byte> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Sync(Node* node, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  // What has the name; null: nothing.
  std::shared_ptr<Node> Find(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFolder(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Change(NameChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SyncNames(const std::string& folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UsedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Names names_ ABSL_GUARDED_BY(mutex_);
  // What a power cut leaves for certain, and the changes since then in order.
  Names synced_names_ ABSL_GUARDED_BY(mutex_);
  std::vector<NameChange> unsynced_ ABSL_GUARDED_BY(mutex_);
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t fail_from_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nothing fails
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  mutable std::map<std::string, ReadFailure> read_failures_ ABSL_GUARDED_BY(mutex_);
  uint64_t capacity_ ABSL_GUARDED_BY(mutex_) = uint64_t{1} << 40;
};

}  // namespace monsoon
