// PsProcess: a real ps_server process for tests.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/subprocess.h"

namespace monsoon {

// The binary, among the test's data.
std::string PsServerBinary();

struct PsProcess {
  Subprocess process;
  std::string address;
};

// Writes a cluster file of one ps with `task_fields` (such as
// "message_memory_mib: 32") into `directory` and starts ps/0 on a free port
// with `flags`. Returns when it serves.
absl::StatusOr<PsProcess> StartPsProcess(const std::string& directory,
                                         const std::string& task_fields,
                                         const std::vector<std::string>& flags);

// Writes such a cluster file; returns its path.
std::string WriteClusterFile(const std::string& directory, const std::string& address,
                             const std::string& task_fields);

}  // namespace monsoon
