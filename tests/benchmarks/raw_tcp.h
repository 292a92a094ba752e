// The limit of a data plane over sockets: one process serves a model over one
// TCP connection with nothing around it. A pull is a request and the floats; a
// push is a request, the floats, applied in pieces of 256 KiB as they arrive,
// and an acknowledgement.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/subprocess.h"
#include "common/process/unique_fd.h"

namespace monsoon {

// Listens on a free port of 127.0.0.1, prints it to the standard output, and
// serves one connection to its end. Returns the exit code.
int ServeRawTcp();

// The client's end. Calls block. Thread safety: none.
class RawTcpPeer {
 public:
  // Runs this program again with --serve=tcp. As Subprocess::Start: before
  // other threads are started.
  static absl::StatusOr<std::unique_ptr<RawTcpPeer>> Start();

  pid_t pid() const { return process_.pid(); }

  // The server takes a model of that many floats, filled with ExpectedModel's
  // first parameters, with Adagrad as BenchmarkOptimizer() says.
  absl::Status Create(uint64_t floats);
  absl::Status Pull(std::span<float> parameters);
  // Returns when all of it is applied: the number of pushes so far.
  absl::StatusOr<uint64_t> Push(std::span<const float> gradient);

 private:
  RawTcpPeer(Subprocess process, UniqueFd socket)
      : process_(std::move(process)), socket_(std::move(socket)) {}

  Subprocess process_;
  UniqueFd socket_;
};

}  // namespace monsoon
