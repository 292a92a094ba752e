// SliceWriting: who writes a slice before its job's first session, and whether that is
// finished. Several clients may write one after another: each has a number, higher than
// the one before. What an earlier one sends late is refused, and a seal ends the writing
// of the newest.
//
// Holds no parameters. Thread safety: none; the job's lock is the caller's.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

class SliceWriting {
 public:
  // `must_be_sealed`: nobody may read the slice before that.
  explicit SliceWriting(bool must_be_sealed) : must_be_sealed_(must_be_sealed) {}

  // Before a write. True: it may be done, and whatever an earlier writer sealed is open
  // again. False: this writer has sealed what it wrote, and writes all again because another
  // shard's seal did not come through: nothing is to be done, since the next seal's checksum says
  // whether it is the same. FailedPrecondition with both numbers for an earlier writer.
  absl::StatusOr<bool> Begin(uint64_t writer);

  // Before a seal. True: it may be done. False: it was done, this is the same once more.
  // FailedPrecondition says which writer or which checksum is there.
  absl::StatusOr<bool> MaySeal(uint64_t writer, uint64_t checksum) const;
  void Seal(uint64_t checksum);

  // The content comes from a checkpoint: it is readable, and where it must be sealed it
  // is not written again.
  void Restore();

  bool readable() const { return !must_be_sealed_ || sealed_; }
  uint64_t writer() const { return writer_; }

 private:
  const bool must_be_sealed_;
  bool written_ = false;  // by writer_
  bool sealed_ = false;   // by writer_
  bool restored_ = false;
  uint64_t writer_ = 0;  // the newest
  uint64_t checksum_ = 0;
};

}  // namespace monsoon
