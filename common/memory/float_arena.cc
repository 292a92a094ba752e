#include "common/memory/float_arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

size_t FloatArena::BytesFor(size_t arrays, size_t floats) {
  const size_t bytes = RoundUp(floats * sizeof(float), kLine);
  return arrays * (bytes + (bytes >= kPage ? kStagger : 0));
}

absl::StatusOr<std::shared_ptr<FloatArena>> FloatArena::Create(size_t bytes) {
  // One huge page more, to begin at one.
  const size_t mapped = bytes + kHugePage;
  void* const mapping =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", bytes, " bytes of floats: ", std::strerror(errno)));
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(mapping);
  std::byte* const begin =
      static_cast<std::byte*>(mapping) + (RoundUp(address, kHugePage) - address);
  // Whole huge pages only: the rest would cost memory nobody counted. A kernel
  // without them refuses, which does no harm.
  static_cast<void>(madvise(begin, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  return std::shared_ptr<FloatArena>(new FloatArena(mapping, mapped, begin, bytes));
}

FloatArena::~FloatArena() { CHECK_EQ(munmap(mapping_, mapped_), 0); }

std::span<float> FloatArena::Take(size_t floats) {
  const size_t bytes = BytesFor(1, floats);
  CHECK_LE(bytes, static_cast<size_t>(end_ - next_));
  float* const array = reinterpret_cast<float*>(next_);
  next_ += bytes;
  return {array, floats};
}

}  // namespace monsoon
