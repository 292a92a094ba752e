#include "worker/data/residence.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The number behind `key` in a file of "key number" lines, or of one number ("").
uint64_t NumberIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  if (key.empty()) {
    return file >> number ? number : kUnknown;
  }
  while (file >> word) {
    if (word == key && file >> number) {
      return number;
    }
    file.clear();
  }
  return kUnknown;
}

// Of the control group (version 2): its limit without what is in use but for cached files.
uint64_t LeftToGroup() {
  const std::string folder = "/sys/fs/cgroup/";
  const uint64_t limit = NumberIn(folder + "memory.max", "");
  const uint64_t used = NumberIn(folder + "memory.current", "");
  if (limit == kUnknown || used == kUnknown) {
    return kUnknown;
  }
  const uint64_t cached = NumberIn(folder + "memory.stat", "inactive_file");
  const uint64_t busy = used - std::min(used, cached == kUnknown ? 0 : cached);
  return limit - std::min(limit, busy);
}

// Of the address space (ulimit -v).
uint64_t LeftToProcess() {
  rlimit limit = {};
  const uint64_t pages = NumberIn("/proc/self/statm", "");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || pages == kUnknown) {
    return kUnknown;
  }
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

}  // namespace

uint64_t FreeMemoryBytes() {
  const uint64_t kib = NumberIn("/proc/meminfo", "MemAvailable:");
  return std::min({kib == kUnknown ? kUnknown : kib << 10, LeftToGroup(), LeftToProcess()});
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
