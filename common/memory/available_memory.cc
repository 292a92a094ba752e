#include "common/memory/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <vector>

namespace monsoon {
namespace {

// The number behind `key` in a file of "key number" lines, or of one number ("").
std::optional<uint64_t> NumberIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  if (key.empty()) {
    return file >> number ? std::optional<uint64_t>(number) : std::nullopt;
  }
  while (file >> word) {
    if (word == key && file >> number) {
      return number;
    }
    file.clear();
  }
  return std::nullopt;
}

std::optional<uint64_t> Smaller(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

// How one version of control groups says it.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cached;  // in memory.stat, of the group with those below it
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

using GroupNumber = std::function<std::optional<uint64_t>(const std::string&, const GroupFiles&)>;

std::optional<uint64_t> LimitOf(const std::string& folder, const GroupFiles& files) {
  return NumberIn(folder + files.limit, "");  // version 2 says "max" for none
}

std::optional<uint64_t> LeftTo(const std::string& folder, const GroupFiles& files) {
  const std::optional<uint64_t> limit = LimitOf(folder, files);
  const std::optional<uint64_t> used = NumberIn(folder + files.used, "");
  if (!limit || !used) {
    return std::nullopt;
  }
  const uint64_t cached = NumberIn(folder + "memory.stat", files.cached).value_or(0);
  return *limit - std::min(*limit, *used - std::min(*used, cached));
}

// The smallest `number` of the group `path` below `mount` and of those around it. Inside a
// container the path may be the host's, and the mount the container's own group: a folder that
// is not there says nothing.
std::optional<uint64_t> SmallestAround(const std::string& mount, std::string path,
                                       const GroupFiles& files, const GroupNumber& number) {
  std::optional<uint64_t> smallest;
  while (true) {
    smallest = Smaller(smallest, number(mount + path + (path.ends_with('/') ? "" : "/"), files));
    if (path.empty() || path == "/") {
      return smallest;
    }
    path.resize(path.rfind('/'));
  }
}

// Over the groups of this process: lines `NUMBER:CONTROLLERS:PATH`, of version 2 without
// controllers.
std::optional<uint64_t> SmallestOfGroups(const std::string& root, const GroupNumber& number) {
  std::optional<uint64_t> smallest;
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mounts = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) {
      continue;
    }
    const std::string name = line.substr(0, path);
    if (name.ends_with("::")) {
      for (const char* const mount : {"", "/unified"}) {  // alone, or beside version 1
        smallest =
            Smaller(smallest, SmallestAround(mounts + mount, line.substr(path), kVersion2, number));
      }
    } else if (name.ends_with(":memory:")) {
      smallest = Smaller(smallest,
                         SmallestAround(mounts + "/memory", line.substr(path), kVersion1, number));
    }
  }
  return smallest;
}

std::optional<uint64_t> OfMachine(const std::string& root, const std::string& key) {
  const std::optional<uint64_t> kib = NumberIn(root + "/proc/meminfo", key);
  return kib ? std::optional<uint64_t>(*kib << 10) : std::nullopt;
}

std::optional<uint64_t> AddressSpace() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

}  // namespace

std::optional<uint64_t> MemoryLimit(const std::string& root) {
  return Smaller(AddressSpace(),
                 Smaller(OfMachine(root, "MemTotal:"), SmallestOfGroups(root, LimitOf)));
}

std::optional<uint64_t> AvailableMemory(const std::string& root) {
  std::optional<uint64_t> space = AddressSpace();
  const std::optional<uint64_t> pages = NumberIn(root + "/proc/self/statm", "");
  if (space && pages) {
    *space -= std::min(*space, *pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  }
  return Smaller(space, Smaller(OfMachine(root, "MemAvailable:"), SmallestOfGroups(root, LeftTo)));
}

}  // namespace monsoon
