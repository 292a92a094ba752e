// SharedSlice: the parameters of one job on one shard in a memory file that
// clients map read-only, so that a fetch is one copy. Only the shard writes;
// a reader takes no lock, and finds out afterwards whether its copy is whole.
//
// Layout of the file, in the byte order of the host:
//
//   SliceHeader   shape, epoch, and a ticket per session slot
//   StripeHeader  per stripe
//   parameters    from a page boundary; stripe i begins at float i * stripe_floats
//
// A stripe's header is a sequence lock (Boehm, "Can seqlocks get along with
// programming language memory models?", 2012): its sequence is odd while the
// stripe is written, and the parameters, the version and the last sequence per
// session belong together if it was even and the same before and after they
// were copied. The parameters themselves are copied with memcpy, which the
// language calls a race; that is why a copy counts only after the check, and
// why nothing of it is used before.
//
// A session that is open has a slot and a ticket, a number that is never given
// again. The ticket stands in the header as long as the session is open: a
// reader that finds another one has lost its session.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/shm/memory_file.h"

namespace monsoon {

struct SharedShape {
  uint64_t shard_epoch = 0;
  uint64_t floats = 0;
  uint64_t stripe_floats = 0;  // of all stripes but the last one
  bool operator==(const SharedShape&) const = default;
};

// Sessions at once that may read; a stripe's header then has 512 bytes.
inline constexpr uint32_t kSessionSlots = 62;

struct SliceHeader {
  SharedShape shape;
  std::atomic<uint32_t> retired;  // 1: the job is gone
  std::atomic<uint64_t> ticket[kSessionSlots];
};

struct alignas(64) StripeHeader {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> applied[kSessionSlots];  // last sequence of the session
};

// A session's place. Slot and ticket are 0 where there is none.
struct SessionSlot {
  uint32_t slot = 0;
  uint64_t ticket = 0;
};

// The shard's end. Thread safety: stripes are independent; one writer a stripe
// at a time, and one thread at a time for the slots.
class SharedSlice {
 public:
  // Zeros at version 0. Where the system has no memory files, and when half of the
  // process's descriptors are in use, it is ordinary memory, which cannot be shared.
  // ResourceExhausted when there is none.
  static absl::StatusOr<SharedSlice> Create(const SharedShape& shape);

  std::span<float> stripe(uint32_t index);
  StripeHeader* header(uint32_t index);
  uint32_t stripes() const;
  const SharedShape& shape() const { return shape_; }

  // A free slot with a new ticket, which readers see after Publish. Ticket 0:
  // all are taken, and the session cannot read here.
  SessionSlot TakeSlot();
  void Publish(const SessionSlot& slot);
  // Readers with its ticket have lost their session; the slot is free again.
  void CloseSlot(const SessionSlot& slot);

  // Readers turn to the shard from now on.
  void Retire();

  // What readers map; null: it cannot be shared. Nobody can write through it.
  std::shared_ptr<const MemoryFile> file() const { return file_; }
  int fd() const { return file_ == nullptr ? -1 : file_->fd(); }
  // No more readers map it. Those that have go on.
  void CloseFile() { file_.reset(); }

 private:
  SliceHeader* slice_header() const { return reinterpret_cast<SliceHeader*>(memory_.data()); }

  SharedShape shape_;
  std::shared_ptr<const MemoryFile> file_;
  MemoryMapping memory_;
  uint64_t next_ticket_ = 1;
  bool taken_[kSessionSlots] = {};
};

// Holds a stripe while it is written: readers' copies of it do not count.
class StripeWriteScope {
 public:
  explicit StripeWriteScope(StripeHeader* header);
  ~StripeWriteScope();
  StripeWriteScope(const StripeWriteScope&) = delete;
  StripeWriteScope& operator=(const StripeWriteScope&) = delete;

 private:
  StripeHeader* const header_;
  const uint64_t sequence_;
};

// A client's end. Thread safe.
class SliceReader {
 public:
  // InvalidArgument unless the file holds a slice of `shape`. A `slot` with
  // ticket 0 reads without a session.
  static absl::StatusOr<std::unique_ptr<SliceReader>> Open(const MemoryFile& file,
                                                           const SharedShape& shape,
                                                           const SessionSlot& slot);

  struct Mark {
    uint64_t version = 0;
    uint64_t applied_sequence = 0;
  };
  // Copies a stripe to `out`, which has its length. None: it was being written,
  // and `out` holds nothing of use.
  std::optional<Mark> Read(uint32_t stripe, std::span<float> out) const;

  // Whether the job is there and the session open: to be asked after the last
  // read.
  bool valid() const;

 private:
  SliceReader(const SharedShape& shape, const SessionSlot& slot, MemoryMapping memory)
      : shape_(shape), slot_(slot), memory_(std::move(memory)) {}

  const SharedShape shape_;
  const SessionSlot slot_;
  const MemoryMapping memory_;
};

}  // namespace monsoon
