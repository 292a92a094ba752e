#include "common/transport/shm/shared_slice.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr uint64_t kPage = 4096;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr uint64_t kStripesOffset = RoundUp(sizeof(SliceHeader), 64);
static_assert(sizeof(StripeHeader) == 512);

uint64_t StripeCount(const SharedShape& shape) {
  return (shape.floats + shape.stripe_floats - 1) / shape.stripe_floats;
}

uint64_t ParametersOffset(const SharedShape& shape) {
  return RoundUp(kStripesOffset + StripeCount(shape) * sizeof(StripeHeader), kPage);
}

uint64_t FileBytes(const SharedShape& shape) {
  return RoundUp(ParametersOffset(shape) + shape.floats * sizeof(float), kPage);
}

StripeHeader* StripeAt(const MemoryMapping& memory, uint64_t index) {
  return reinterpret_cast<StripeHeader*>(memory.data() + kStripesOffset) + index;
}

std::span<float> ParametersAt(const MemoryMapping& memory, const SharedShape& shape,
                              uint64_t index) {
  const uint64_t begin = index * shape.stripe_floats;
  CHECK_LT(begin, shape.floats);
  return {reinterpret_cast<float*>(memory.data() + ParametersOffset(shape)) + begin,
          std::min(shape.stripe_floats, shape.floats - begin)};
}

// Whether a descriptor may be kept for as long as a job lives. The upper half of
// those that the process may have is for connections: jobs must not lock them out.
bool MayKeep(int fd) {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) < limit.rlim_cur / 2;
}

// A file that is mapped here and sealed for everybody else.
absl::StatusOr<std::pair<MemoryFile, MemoryMapping>> CreateFile(uint64_t bytes) {
  MemoryMapping memory;
  ASSIGN_OR_RETURN(MemoryFile file,
                   MemoryFile::CreateForOneWriter("monsoon-slice", bytes, &memory));
  if (!MayKeep(file.fd())) {
    return absl::ResourceExhaustedError("too many descriptors are in use");
  }
  return std::make_pair(std::move(file), std::move(memory));
}

}  // namespace

absl::StatusOr<SharedSlice> SharedSlice::Create(const SharedShape& shape) {
  CHECK_GT(shape.floats, 0u);
  CHECK_GT(shape.stripe_floats, 0u);
  const uint64_t bytes = FileBytes(shape);
  SharedSlice slice;
  slice.shape_ = shape;
  absl::StatusOr<std::pair<MemoryFile, MemoryMapping>> file = CreateFile(bytes);
  if (file.ok()) {
    slice.file_ = std::make_shared<const MemoryFile>(std::move(file->first));
    slice.memory_ = std::move(file->second);
  } else {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the system gives no ", bytes, " bytes for parameters"));
    }
    slice.memory_ = MemoryMapping(data, bytes);
  }
  slice.slice_header()->shape = shape;
  return slice;
}

uint32_t SharedSlice::stripes() const { return static_cast<uint32_t>(StripeCount(shape_)); }

std::span<float> SharedSlice::stripe(uint32_t index) {
  return ParametersAt(memory_, shape_, index);
}

StripeHeader* SharedSlice::header(uint32_t index) {
  CHECK_LT(index, stripes());
  return StripeAt(memory_, index);
}

SessionSlot SharedSlice::TakeSlot() {
  bool* free = std::find(std::begin(taken_), std::end(taken_), false);
  if (free == std::end(taken_)) {
    return {};
  }
  *free = true;
  return {static_cast<uint32_t>(free - taken_), next_ticket_++};
}

void SharedSlice::Publish(const SessionSlot& slot) {
  if (slot.ticket != 0) {
    slice_header()->ticket[slot.slot].store(slot.ticket, std::memory_order_release);
  }
}

void SharedSlice::CloseSlot(const SessionSlot& slot) {
  if (slot.ticket != 0) {
    slice_header()->ticket[slot.slot].store(0, std::memory_order_release);
    taken_[slot.slot] = false;
  }
}

void SharedSlice::Retire() { slice_header()->retired.store(1, std::memory_order_release); }

StripeWriteScope::StripeWriteScope(StripeHeader* header)
    : header_(header), sequence_(header->sequence.load(std::memory_order_relaxed)) {
  header_->sequence.store(sequence_ + 1, std::memory_order_relaxed);
  // What is written to the stripe from here on is not seen before the odd
  // sequence.
  std::atomic_thread_fence(std::memory_order_release);
}

StripeWriteScope::~StripeWriteScope() {
  header_->sequence.store(sequence_ + 2, std::memory_order_release);
}

absl::StatusOr<std::unique_ptr<SliceReader>> SliceReader::Open(const MemoryFile& file,
                                                               const SharedShape& shape,
                                                               const SessionSlot& slot) {
  if (file.size() < FileBytes(shape) || slot.slot >= kSessionSlots) {
    return absl::InvalidArgumentError("the shard's parameters are of another size");
  }
  ASSIGN_OR_RETURN(MemoryMapping memory, file.Map(MemoryFile::Access::kRead));
  const SharedShape found = reinterpret_cast<const SliceHeader*>(memory.data())->shape;
  if (found != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shard's parameters have epoch ", found.shard_epoch, " and ", found.floats,
                     " floats in stripes of ", found.stripe_floats, "; expected were epoch ",
                     shape.shard_epoch, ", ", shape.floats, " and ", shape.stripe_floats));
  }
  return std::unique_ptr<SliceReader>(new SliceReader(shape, slot, std::move(memory)));
}

std::optional<SliceReader::Mark> SliceReader::Read(uint32_t stripe, std::span<float> out) const {
  const StripeHeader* header = StripeAt(memory_, stripe);
  const std::span<const float> parameters = ParametersAt(memory_, shape_, stripe);
  CHECK_EQ(out.size(), parameters.size());
  const uint64_t sequence = header->sequence.load(std::memory_order_acquire);
  if (sequence % 2 != 0) {
    return std::nullopt;
  }
  std::memcpy(out.data(), parameters.data(), out.size_bytes());
  Mark mark;
  mark.version = header->version.load(std::memory_order_relaxed);
  if (slot_.ticket != 0) {
    mark.applied_sequence = header->applied[slot_.slot].load(std::memory_order_relaxed);
  }
  // What was read above was read before the sequence is read again.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (header->sequence.load(std::memory_order_relaxed) != sequence) {
    return std::nullopt;
  }
  return mark;
}

bool SliceReader::valid() const {
  const auto* header = reinterpret_cast<const SliceHeader*>(memory_.data());
  return header->retired.load(std::memory_order_acquire) == 0 &&
         (slot_.ticket == 0 ||
          header->ticket[slot_.slot].load(std::memory_order_acquire) == slot_.ticket);
}

}  // namespace monsoon
