#include "tests/benchmarks/meters.h"

#include <time.h>

#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

double ToSeconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Device and inode of each memory file that a process maps.
std::set<std::string> MemoryFiles(pid_t pid) {
  std::set<std::string> files;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  std::string line;
  while (std::getline(maps, line)) {
    std::istringstream fields(line);
    std::string range, mode, offset, device, inode, path;
    fields >> range >> mode >> offset >> device >> inode >> path;
    if (path.starts_with("/memfd:")) {
      files.insert(absl::StrCat(device, " ", inode));
    }
  }
  return files;
}

}  // namespace

double NowSeconds() {
  timespec now;
  CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  return ToSeconds(now);
}

double CpuSeconds(pid_t pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  if (pid != 0) {
    CHECK_EQ(clock_getcpuclockid(pid, &clock), 0);
  }
  timespec used;
  CHECK_EQ(clock_gettime(clock, &used), 0);
  return ToSeconds(used);
}

uint64_t ProcessMemory(pid_t pid, const std::string& field) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kib = 0;
    if (fields >> name >> kib && name == field + ":") {
      return kib * 1024;
    }
  }
  return 0;
}

bool ShareMemoryFile(pid_t a, pid_t b) {
  const std::set<std::string> files = MemoryFiles(a);
  for (const std::string& file : MemoryFiles(b)) {
    if (files.contains(file)) {
      return true;
    }
  }
  return false;
}

}  // namespace monsoon
