#include "common/transport/grpc/rpc_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/listen_addresses.h"
#include "common/transport/grpc/reachability.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace monsoon {
namespace {

// Clients ping every 10 s (channel.cc); half of that is still no abuse.
constexpr int kShortestPingMs = 5'000;
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
// For the process that was there before to be gone.
constexpr absl::Duration kLongestDeath = absl::Seconds(2);
// A replica has one stream a direction and a few control calls per connection.
constexpr int kMaxStreamsPerConnection = 16;

absl::Status BindError(const std::string& address, Address::Kind kind) {
  if (kind != Address::Kind::kTcp) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address, ": the socket is in use, or its path cannot be created"));
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address,
                   ": the port is in use by another process, or the host is not this machine's"));
}

// What a queue wants before its end.
void Drain(grpc::CompletionQueue* queue) {
  if (queue == nullptr) {
    return;
  }
  queue->Shutdown();
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) {
  }
}

// What a name that others are to connect to stands for here: mostly one of this machine's
// addresses, but with Debian's /etc/hosts its loopback.
void TellAddresses(const std::string& address) {
  if (IsLoopback(address)) {
    return;
  }
  for (const std::string& bound : NamedAddresses(address)) {
    if (IsLoopback(bound)) {
      LOG(WARNING) << address << " is " << bound
                   << " on this machine: no other machine can connect to it; give the machine's IP "
                      "address in the cluster file, or mend its name in /etc/hosts";
    } else {
      LOG(INFO) << address << " is " << bound << " here";
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services,
    std::unique_ptr<grpc::ServerCompletionQueue>* queue) {
  RETURN_IF_ERROR(CheckReachability(options.address, options.insecure));
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(options.address));
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                   ListenAddresses(options.address, kLongestDeath));
  PrepareGrpc();
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kServerLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  if (options.max_message_bytes > 0) {
    builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  }
  std::unique_ptr<RpcServer> server(new RpcServer());
  builder.RegisterService(&server->health_);
  for (grpc::Service* service : services) {
    builder.RegisterService(service);
  }
  std::unique_ptr<grpc::ServerCompletionQueue> added;
  if (queue != nullptr) {
    added = builder.AddCompletionQueue();
  }
  int port = 0;
  for (const std::string& address : addresses) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  }

  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    Drain(added.get());
    return BindError(options.address, parsed.kind);
  }
  if (queue != nullptr) {
    *queue = std::move(added);
  }
  server->address_ = options.address;
  if (parsed.kind == Address::Kind::kTcp) {
    server->port_ = port;
    server->address_ =
        absl::StrCat(options.address.substr(0, options.address.rfind(':')), ":", port);
  }
  TellAddresses(server->address_);
  return server;
}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

void RpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) {
    return;  // it never came to listen
  }
  server_->Shutdown(
      gpr_time_from_nanos(std::max<int64_t>(0, absl::ToInt64Nanoseconds(grace)), GPR_TIMESPAN));
}

}  // namespace monsoon
