// Servers that the benchmark compares with: this program, started again.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/subprocess.h"

namespace monsoon {

struct ServingProcess {
  Subprocess process;
  uint16_t port = 0;  // on 127.0.0.1
};

// Runs this program with --serve=KIND and returns when it has printed its
// port. As Subprocess::Start: before other threads are started.
absl::StatusOr<ServingProcess> StartServing(const std::string& kind);

}  // namespace monsoon
