// At the end of the process: leaks, counts, and an exit code that says whether there were
// reports.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"
#include "tests/gpu/emulator/streams.h"

namespace monsoon::emulator {
namespace {

void CheckLeaks() {
  for (int device = 0; device < TheSettings().devices; ++device) {
    if (DeviceError(device) != 0) {
      return;  // nothing could be freed
    }
  }
  if (AllocationCount() + PinnedCount() + StreamCount() + EventCount() > 0) {
    Report("leak", Text("%llu allocations, %llu pieces of page-locked memory, %llu streams and "
                        "%llu events are left",
                        static_cast<unsigned long long>(AllocationCount()),
                        static_cast<unsigned long long>(PinnedCount()),
                        static_cast<unsigned long long>(StreamCount()),
                        static_cast<unsigned long long>(EventCount())));
  }
}

void WriteStats() {
  const std::string& path = TheSettings().stats;
  if (path.empty()) {
    return;
  }
  const std::string json = TheStats().ToJson() + "\n";
  std::FILE* const file = path == "stderr" ? stderr : std::fopen(path.c_str(), "a");
  if (file == nullptr || std::fputs(json.c_str(), file) < 0) {
    std::perror("CUDA emulator: MONSOON_EMULATOR_STATS");
  }
  if (file != nullptr && file != stderr) {
    std::fclose(file);
  }
}

void AtEnd() {
  const std::lock_guard lock(TheMutex());
  CheckLeaks();
  WriteStats();
  if (const uint64_t count = ReportCount(); count > 0) {
    std::fprintf(stderr, "CUDA emulator: %llu reports\n", static_cast<unsigned long long>(count));
    std::fflush(nullptr);
    _exit(kReportsExitCode);
  }
}

// Before main, so that it runs after the program's own.
const int registered = std::atexit(AtEnd);

}  // namespace
}  // namespace monsoon::emulator
