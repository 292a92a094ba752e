#include "common/transport/shm/host_id.h"

#include <unistd.h>

#include <fstream>

namespace monsoon {

std::string HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  char name_space[64];
  const ssize_t size = readlink("/proc/self/ns/net", name_space, sizeof(name_space));
  if (!std::getline(file, boot) || boot.empty() || size <= 0) {
    return "";
  }
  return boot + " " + std::string(name_space, static_cast<size_t>(size));
}

}  // namespace monsoon
