#include "common/transport/shm/host_id.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

std::string HostId(const std::string& folder_id) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (!std::getline(file, boot) || boot.empty()) {
    return "";
  }
  return absl::StrCat(boot, " ", folder_id);
}

bool IsThisHost(absl::string_view id) {
  const std::string host = HostId("");
  return !host.empty() && absl::StartsWith(id, host);
}

}  // namespace monsoon
