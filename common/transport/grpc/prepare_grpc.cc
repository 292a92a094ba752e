#include "common/transport/grpc/prepare_grpc.h"

#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "common/base/logging.h"
#include "common/base/protobuf_log.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"

namespace monsoon {
namespace {

// What matters of it comes back as a status, which the caller reports in its words.
void LogOfGrpc(gpr_log_func_args* line) { LOG(DEBUG) << "gRPC: " << line->message; }

}  // namespace

void PrepareGrpc() {
  [[maybe_unused]] static const bool prepared = [] {
    LogProtobufErrors();
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    // Whoever asks for gRPC's own lines gets them as gRPC writes them.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function(&LogOfGrpc);
    }
    grpc_init();
    return true;
  }();
}

}  // namespace monsoon
