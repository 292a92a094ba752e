// A ring of bytes in shared memory between one writer and one reader, maybe of
// different processes. Neither end blocks; each rings the other's bell.
//
// Neither end trusts the other: it keeps its own index to itself, checks the
// other's on every use (DataLoss: the connection must be given up), and the
// reader copies the bytes out, so that nobody can change them after a check.
//
// Thread safety: one thread per end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/shm/bell.h"

namespace monsoon {

// Lies in shared memory; zeros are its first state. Bytes since the beginning;
// a cache line each, so that the ends do not disturb each other.
struct RingIndexes {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> writer_waits;  // for room
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Both ends move at most so much before they tell the other one: small enough
// to work at the same time and to stay in the second-level cache.
inline constexpr size_t kRingPieceBytes = 128 << 10;

class RingWriter {
 public:
  // `data` has a power of two of bytes. Everything outlives the writer.
  RingWriter(RingIndexes* indexes, std::span<std::byte> data, Bell* reader_bell);

  // Writes as much from the front of `bytes` as there is room for. When that is
  // not all, the reader rings the writer's bell once half of the ring is free.
  // `quietly`: a reader that sleeps is told by Tell(), or when the ring is full; else of
  // each piece.
  absl::StatusOr<size_t> Write(std::span<const std::byte> bytes, bool quietly = false);
  // Tells the reader of what was written since it was told last.
  void Tell();

 private:
  absl::StatusOr<size_t> Room();

  RingIndexes* const indexes_;
  const std::span<std::byte> data_;
  Bell* const reader_bell_;
  uint64_t written_ = 0;
  uint64_t told_ = 0;  // of which the reader's bell has rung
  uint64_t read_ = 0;  // the newest one that was checked
};

class RingReader {
 public:
  RingReader(RingIndexes* indexes, std::span<const std::byte> data, Bell* writer_bell);

  // Moves what is there, up to out.size() bytes, to the front of `out`.
  absl::StatusOr<size_t> Read(std::span<std::byte> out);

  // Whether Read has something to move, or to complain of.
  bool HasBytes() const {
    return written_ != read_ || indexes_->written.load(std::memory_order_acquire) != read_;
  }

 private:
  RingIndexes* const indexes_;
  const std::span<const std::byte> data_;
  Bell* const writer_bell_;
  uint64_t written_ = 0;  // the newest one that was checked
  uint64_t read_ = 0;
};

}  // namespace monsoon
