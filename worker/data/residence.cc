#include "worker/data/residence.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/memory/available_memory.h"

namespace monsoon {

uint64_t FreeMemoryBytes() {
  return AvailableMemory().value_or(std::numeric_limits<uint64_t>::max());
}

absl::StatusOr<bool> IsKept(Dataset::Residence residence, uint64_t bytes, uint64_t free,
                            const std::string& path, const std::string& why_not) {
  const bool must =
      residence == Dataset::IN_MEMORY || (residence != Dataset::ON_DISK && !why_not.empty());
  if (must && bytes > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, " is to be kept in memory, ", bytes >> 20, " MiB, and ", free >> 20, " MiB are free",
        why_not.empty() ? "; residence: ON_DISK reads it in place"
                        : absl::StrCat("; it is not read in place: ", why_not)));
  }
  switch (residence) {
    case Dataset::IN_MEMORY:
      return true;
    case Dataset::ON_DISK:
      if (!why_not.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, " cannot be read with residence: ON_DISK: ", why_not));
      }
      return false;
    default:
      return !why_not.empty() || bytes <= free / 4;
  }
}

}  // namespace monsoon
