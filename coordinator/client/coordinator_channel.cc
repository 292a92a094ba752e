#include "coordinator/client/coordinator_channel.h"

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace monsoon {

std::shared_ptr<grpc::Channel> CoordinatorChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // In spite of its name the time one attempt may take. A busy machine needs
  // more than a moment; a stopped coordinator is still named within 5 s.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Without keepalive a half-open link hangs until the deadline.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Two channels to one address must not share a connection: a test restarts
  // coordinators under one name.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace monsoon
