// StateFolder: where one parameter server keeps what must survive it,
//
//   STATE_DIR/ps-I/lock    held while the process lives; says its pid
//   STATE_DIR/ps-I/epoch   the number of its newest life
//   STATE_DIR/ps-I/written that of the newest one that has written a part (LastWriterPath)
//   STATE_DIR/ps-I/coordinator  the newest journal of a coordinator that it heard of (HeardJournal)
//   STATE_DIR/ps-I/revoked the keys of members that were thrown out (KeptRevocations)
//   STATE_DIR/ps-I/marks   what its sessions have got so far (MarksFolder)
//
// beside the checkpoints in STATE_DIR/jobs (common/checkpoint). Each start claims an
// epoch above all earlier ones, on the disk before anything is served under it, so
// that no two lives are taken for one. It is at least the wall clock in microseconds:
// a folder that was deleted does not bring old numbers back.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/file_lock.h"
#include "common/storage/storage.h"

namespace monsoon {

class StateFolder {
 public:
  // Makes the folder, locks it and claims an epoch; `unix_us` is the wall clock.
  // FailedPrecondition names the process that holds it; DataLoss an epoch file that
  // says nothing. `storage` is of the system's files, where the lock is, and outlives
  // this.
  static absl::StatusOr<std::unique_ptr<StateFolder>> Open(Storage* storage,
                                                           const std::string& state_dir,
                                                           uint32_t task, int64_t unix_us);

  const std::string& state_dir() const { return state_dir_; }
  // STATE_DIR/ps-I
  std::string own_folder() const;
  uint64_t epoch() const { return epoch_; }
  // FailedPrecondition once another life has claimed a newer epoch: nothing may be put
  // in place any more.
  absl::Status CheckOwner() const;
  // This life has written a part: `up` takes it for healthy then, also once the job is
  // deleted.
  absl::Status NoteWritten() const;

 private:
  StateFolder(Storage* storage, std::string state_dir, uint32_t task, std::string epoch_file,
              FileLock lock, uint64_t epoch)
      : storage_(storage),
        state_dir_(std::move(state_dir)),
        task_(task),
        epoch_file_(std::move(epoch_file)),
        lock_(std::move(lock)),
        epoch_(epoch) {}

  Storage* const storage_;
  const std::string state_dir_;
  const uint32_t task_;
  const std::string epoch_file_;
  const FileLock lock_;
  const uint64_t epoch_;
};

}  // namespace monsoon
