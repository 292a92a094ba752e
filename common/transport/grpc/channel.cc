#include "common/transport/grpc/channel.h"

#include <algorithm>

#include "common/config/address.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/grpc/prepare_grpc.h"
#include "grpc/grpc.h"
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

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const std::shared_ptr<Tls>& tls, Role server) {
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
  const bool secured = tls != nullptr && IsTcp(address);
  return grpc::CreateCustomChannel(
      address, secured ? tls->MakeChannelCredentials(server) : grpc::InsecureChannelCredentials(),
      arguments);
}

void SetDeadline(grpc::ClientContext* context, absl::Duration deadline) {
  context->set_deadline(
      gpr_time_from_nanos(std::max<int64_t>(0, absl::ToInt64Nanoseconds(deadline)), GPR_TIMESPAN));
}

}  // namespace monsoon
