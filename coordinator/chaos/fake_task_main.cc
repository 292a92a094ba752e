// Stands in for a task: called by the name of one it waits until it is killed.
//
//   fake_task --stop PID TASK    stops that process as chaos does, says so on the standard
//                                output, and waits too

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "coordinator/chaos/cluster_view.h"
#include "coordinator/chaos/task_process.h"

int main(int argc, char** argv) {
  std::unique_ptr<monsoon::TaskProcesses> processes;
  std::unique_ptr<monsoon::TaskProcess> process;
  if (argc == 4 && strcmp(argv[1], "--stop") == 0) {
    processes = *monsoon::MakeTaskProcesses();
    process = *processes->Open(
        {.name = argv[3], .pid = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10))});
    if (const absl::Status status = process->Stop(); !status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      return 1;
    }
    std::puts("stopped");
    std::fflush(stdout);
  }
  while (true) {
    pause();
  }
}
