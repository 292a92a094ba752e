#include "common/transport/grpc/rpc_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/health_service.h"
#include "common/transport/grpc/listen_sockets.h"
#include "common/transport/grpc/prepare_grpc.h"
#include "common/transport/grpc/reachability.h"
#include "common/transport/grpc/unix_listener.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace monsoon {
namespace {

// Clients ping every 10 s (channel.cc); half of that is still no abuse.
constexpr int kShortestPingMs = 5'000;
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
// Of a server without large messages: a hundred calls.
constexpr int kReadBytes = 16 << 10;
constexpr int kLongestHandshakeMs = 10'000;
constexpr int kLongestIdleMs = 300'000;
// For calls on a connection that is to end. A data stream that goes on is broken off then, which
// its client takes as any other break.
constexpr int kLastCallsMs = 60'000;
// For the process that was there before to be gone.
constexpr absl::Duration kLongestDeath = absl::Seconds(2);
// A replica has one stream a direction and a few control calls per connection.
constexpr int kMaxStreamsPerConnection = 16;

// What a queue wants before its end.
void Drain(grpc::CompletionQueue* queue) {
  queue->Shutdown();
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) {
  }
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void Configure(const RpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kServerLookaheadBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kShortestPingMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kLongestHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kLongestIdleMs);
  if (options.tls != nullptr) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                                Milliseconds(options.longest_connection));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kLastCallsMs);
  }
  if (!options.bulk) {
    builder->AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  }
  if (options.max_message_bytes > 0) {
    builder->SetMaxReceiveMessageSize(options.max_message_bytes);
  }
}

// What takes connections that AcceptLoop brings, plain ones where `tls` is null.
std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> AddAcceptor(
    const std::shared_ptr<Tls>& tls, bool strangers, grpc::ServerBuilder* builder) {
  return builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      tls == nullptr ? grpc::InsecureServerCredentials() : tls->MakeServerCredentials(strangers));
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

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& given,
                                                            CallTable calls,
                                                            grpc::Service* streams) {
  RpcServerOptions options = given;
  if (!IsTcp(options.address)) {
    options.tls = nullptr;  // the socket is its user's
  }
  RETURN_IF_ERROR(CheckReachability(options.address, options.tls != nullptr || options.insecure));
  ASSIGN_OR_RETURN(ListenSockets listening, OpenListenSockets(options.address, kLongestDeath));
  PrepareGrpc();
  AddHealthCalls(&calls);
  std::unique_ptr<RpcServer> server(new RpcServer());
  server->guard_ = Guard(options.tls, options.membership, &server->connections_);
  server->calls_ = CallService::Create(std::move(calls), options.call_limits, &server->connections_,
                                       &server->guard_);
  server->address_ = options.address;
  server->socket_path_ = listening.path;
  server->socket_inode_ = listening.inode;
  if (listening.port != 0) {
    server->port_ = listening.port;
    server->address_ =
        absl::StrCat(options.address.substr(0, options.address.rfind(':')), ":", listening.port);
  }
  RETURN_IF_ERROR(server->Serve(options, streams, std::move(listening.sockets)));
  TellAddresses(server->address_);
  return server;
}

absl::Status RpcServer::Serve(const RpcServerOptions& options, grpc::Service* streams,
                              std::vector<UniqueFd> sockets) {
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  Configure(options, &builder);
  calls_->Register(&builder);
  if (streams != nullptr) {
    builder.RegisterService(streams);
  }
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  using Acceptor = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;
  const Acceptor acceptor = AddAcceptor(options.tls, /*strangers=*/false, &builder);
  const Acceptor strangers = options.tls == nullptr || options.takes_strangers == nullptr
                                 ? nullptr
                                 : AddAcceptor(options.tls, /*strangers=*/true, &builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    Drain(queue.get());
    return absl::UnavailableError(absl::StrCat("cannot serve on ", address_));
  }
  queue_ = std::make_unique<QueueThreads>(std::move(queue), options.queue_threads);
  calls_->Start(queue_->queue());
  const auto take = [this, acceptor, strangers, secured = options.tls != nullptr,
                     takes_strangers = options.takes_strangers](int listener, UniqueFd connection) {
    if (!secured) {
      connections_.Note(connection.get());
    } else if (!connections_.NoteNewcomer(connection.get(), Clock::Real()->Now())) {
      return;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection.Release();
    const bool open = strangers != nullptr && takes_strangers();
    (open ? strangers : acceptor)->HandleNewConnection(&parameters);
  };
  const bool open_to_all = options.tls == nullptr && !IsLoopback(address_);
  ASSIGN_OR_RETURN(
      accept_loop_,
      AcceptLoop::Start(
          {.name = address_,
           .on_trouble = options.on_trouble,
           .reminder = open_to_all ? absl::StrCat("--insecure: everybody who reaches ", address_,
                                                  " may do everything there; docs/security.md "
                                                  "says how members prove who they are")
                                   : ""},
          std::move(sockets), take));
  return absl::OkStatus();
}

RpcServer::~RpcServer() {
  Shutdown(absl::ZeroDuration());
  if (queue_ != nullptr) {
    queue_->Stop();
  }
}

void RpcServer::Shutdown(absl::Duration grace) {
  // gRPC drops descriptors that come once it is shutting down.
  if (accept_loop_ != nullptr && !socket_path_.empty()) {
    RemoveSocketFile(socket_path_, socket_inode_);
  }
  accept_loop_.reset();
  if (server_ == nullptr) {
    return;  // it never came to serve
  }
  server_->Shutdown(
      gpr_time_from_nanos(std::max<int64_t>(0, absl::ToInt64Nanoseconds(grace)), GPR_TIMESPAN));
  calls_->Stop();
}

}  // namespace monsoon
