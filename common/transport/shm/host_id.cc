#include "common/transport/shm/host_id.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

std::string HostId(const std::string& folder_id) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  char network[64];
  const ssize_t size = readlink("/proc/self/ns/net", network, sizeof(network));
  if (!std::getline(file, boot) || boot.empty() || size <= 0) {
    return "";
  }
  return absl::StrCat(boot, " ", absl::string_view(network, static_cast<size_t>(size)), " ",
                      folder_id);
}

bool IsThisHost(absl::string_view id) {
  const std::string host = HostId("");
  return !host.empty() && absl::StartsWith(id, host);
}

}  // namespace monsoon
