#include "common/transport/grpc/channel.h"

#include <algorithm>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "common/base/logging.h"
#include "common/base/protobuf_log.h"
#include "common/transport/frame/frame_codec.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace monsoon {
namespace {

constexpr int kKeepaliveMs = 10'000;  // gRPC lets clients ping no more often
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kLongestReconnectMs = 1'000;
// Room for gRPC's own framing.
constexpr int kMessageSlackBytes = 64 << 10;

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

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  PrepareGrpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kClientLookaheadBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxFrameBytes) + kMessageSlackBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void SetDeadline(grpc::ClientContext* context, absl::Duration deadline) {
  context->set_deadline(
      gpr_time_from_nanos(std::max<int64_t>(0, absl::ToInt64Nanoseconds(deadline)), GPR_TIMESPAN));
}

}  // namespace monsoon
