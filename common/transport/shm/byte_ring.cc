#include "common/transport/shm/byte_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::Status Corrupt(const char* end, uint64_t index) {
  return absl::DataLossError(
      absl::StrCat("the ", end, "'s index of a shared-memory ring is impossible: ", index));
}

}  // namespace

RingWriter::RingWriter(RingIndexes* indexes, std::span<std::byte> data, Bell* reader_bell)
    : indexes_(indexes), data_(data), reader_bell_(reader_bell) {
  CHECK(std::has_single_bit(data.size()));
}

absl::StatusOr<size_t> RingWriter::Room() {
  // Sequentially consistent: see Write.
  const uint64_t read = indexes_->read.load();
  if (read < read_ || read > written_) {
    return Corrupt("reader", read);
  }
  read_ = read;
  return data_.size() - (written_ - read_);
}

void RingWriter::Tell() {
  if (told_ != written_) {
    told_ = written_;
    Ring(reader_bell_);
  }
}

absl::StatusOr<size_t> RingWriter::Write(std::span<const std::byte> bytes, bool quietly) {
  size_t done = 0;
  bool waits = false;
  while (done < bytes.size()) {
    ASSIGN_OR_RETURN(const size_t room, Room());
    if (room == 0) {
      Tell();  // or both would wait
      if (waits) {
        return done;
      }
      // Either the next look sees the room, or the reader sees the flag.
      waits = true;
      indexes_->writer_waits.store(1);
      continue;
    }
    const size_t at = written_ & (data_.size() - 1);
    const size_t piece = std::min({bytes.size() - done, room, data_.size() - at, kRingPieceBytes});
    std::memcpy(data_.data() + at, bytes.data() + done, piece);
    done += piece;
    written_ += piece;
    indexes_->written.store(written_, std::memory_order_release);
    if (!quietly) {
      Tell();
    }
  }
  return done;
}

RingReader::RingReader(RingIndexes* indexes, std::span<const std::byte> data, Bell* writer_bell)
    : indexes_(indexes), data_(data), writer_bell_(writer_bell) {
  CHECK(std::has_single_bit(data.size()));
}

absl::StatusOr<size_t> RingReader::Read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (written_ == read_) {
      const uint64_t written = indexes_->written.load(std::memory_order_acquire);
      if (written < read_ || written - read_ > data_.size()) {
        return Corrupt("writer", written);
      }
      written_ = written;
      if (written_ == read_) {
        break;
      }
    }
    const size_t at = read_ & (data_.size() - 1);
    const size_t piece =
        std::min({out.size() - done, written_ - read_, data_.size() - at, kRingPieceBytes});
    std::memcpy(out.data() + done, data_.data() + at, piece);
    done += piece;
    read_ += piece;
    indexes_->read.store(read_);
    // Not for every piece: to wake somebody takes longer than to copy one.
    const bool much_room = written_ - read_ <= data_.size() / 2;
    if (much_room && indexes_->writer_waits.load() != 0) {
      indexes_->writer_waits.store(0);
      Ring(writer_bell_);
    }
  }
  return done;
}

}  // namespace monsoon
