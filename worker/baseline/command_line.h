// The one-process trainer's command line.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace monsoon {

struct BaselineCommand {
  Job job;
  uint32_t threads = 1;
  bool json = false;
  std::string help;  // set: show it and do nothing else
};

// Reads flags and the job file. Errors are lines for people, complete: those of
// the job file begin with its name. Exit 2.
absl::StatusOr<BaselineCommand> ReadBaselineCommand(std::span<const char* const> args);

}  // namespace monsoon
