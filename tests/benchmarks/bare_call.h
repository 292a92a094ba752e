// The limit of a small fetch over gRPC: a synchronous unary call as gRPC's
// tutorial has it, between two processes over 127.0.0.1, default settings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/subprocess.h"

namespace monsoon {

// Serves on a free port, prints it, ends with its parent. Returns the exit
// code.
int ServeBareCalls();

// Thread safety: none.
class BareCallPeer {
 public:
  virtual ~BareCallPeer() = default;
  // As Subprocess::Start: before other threads are started.
  static absl::StatusOr<std::unique_ptr<BareCallPeer>> Start();

  virtual pid_t pid() const = 0;
  // Asks for `size` bytes; DataLoss when fewer come.
  virtual absl::Status Call(uint32_t size) = 0;
};

}  // namespace monsoon
