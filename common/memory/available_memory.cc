#include "common/memory/available_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace monsoon {

std::optional<uint64_t> AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") {
      return kib << 10;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace monsoon
