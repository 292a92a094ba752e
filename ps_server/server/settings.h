// The command line of ps_server and what the cluster file says about the task.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/log_settings.h"
#include "ps_server/server/ps_server.h"

namespace monsoon {

struct PsSettings {
  PsServerOptions server;
  std::string coordinator;  // its address, as the cluster file has it
  std::string port_file;    // "": none
  LogSettings log;
  std::optional<std::string> help;  // set: print it and do nothing else
  bool version = false;             // print what the binary is, and do nothing else
};

// Jobs may take `wanted` bytes, but no more than `system`, what this process may have in all,
// leaves them beside messages and the process itself; these get no more than half of it.
void LimitMemory(uint64_t wanted, std::optional<uint64_t> system, PsServerOptions* options);

// InvalidArgument or the cluster file's errors, ready to be shown.
absl::StatusOr<PsSettings> ReadPsSettings(std::span<const char* const> args);

}  // namespace monsoon
