#include "ps_server/shard/slice_writing.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

absl::Status Earlier(uint64_t writer, uint64_t newest) {
  return absl::FailedPreconditionError(absl::StrCat("writer ", writer, " comes late: writer ",
                                                    newest,
                                                    " has taken over the writing of its slice"));
}

}  // namespace

absl::StatusOr<bool> SliceWriting::Begin(uint64_t writer) {
  if (restored_ && must_be_sealed_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its slice was restored from a checkpoint; writer ", writer, " cannot replace it"));
  }
  if (writer < writer_) {
    return Earlier(writer, writer_);
  }
  if (sealed_ && writer == writer_) {
    return false;
  }
  writer_ = writer;
  written_ = true;
  sealed_ = false;
  return true;
}

absl::StatusOr<bool> SliceWriting::MaySeal(uint64_t writer, uint64_t checksum) const {
  if (writer < writer_) {
    return Earlier(writer, writer_);
  }
  if (sealed_ && writer == writer_) {
    if (checksum == checksum_) {
      return false;
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("writer %d has sealed its slice with checksum %016x, not %016x", writer,
                        checksum_, checksum));
  }
  if (!written_ || writer != writer_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "writer ", writer, " seals a slice of which it has written nothing (the last writer is ",
        writer_, "): write the parameters again"));
  }
  return true;
}

void SliceWriting::Seal(uint64_t checksum) {
  sealed_ = true;
  checksum_ = checksum;
}

void SliceWriting::Restore() {
  sealed_ = must_be_sealed_;
  restored_ = true;
}

}  // namespace monsoon
