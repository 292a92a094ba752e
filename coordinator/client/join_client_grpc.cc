#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/tls.h"
#include "common/transport/grpc/unary_call.h"
#include "common/transport/own_tls.h"
#include "coordinator/client/join_client.h"
#include "proto/member.grpc.pb.h"

namespace monsoon {
namespace {

using Stub = MemberService::Stub;

class TlsJoinClient : public JoinClient {
 public:
  explicit TlsJoinClient(absl::Duration deadline) : deadline_(deadline) {}

  absl::StatusOr<std::string> FetchAuthority(const std::string& address) override {
    ASSIGN_OR_RETURN(ProbedServer server, ProbeCoordinator(address, std::nullopt, deadline_));
    if (!server.speaks_tls) {
      return absl::FailedPreconditionError(absl::StrCat(
          "what answers at ", address,
          " speaks no TLS: it is no coordinator, or it was started with --insecure or before "
          "`coordinator cluster init` on its host; start it anew there"));
    }
    return std::move(server.chain);
  }

  absl::StatusOr<JoinReply> Join(const std::string& address, const std::string& authority,
                                 const JoinRequest& request) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Tls> tls, Tls::ForJoining(authority));
    const std::shared_ptr<grpc::Channel> channel = MakeChannel(address, tls, Role::kCoordinator);
    const std::unique_ptr<Stub> stub = MemberService::NewStub(channel);
    absl::StatusOr<JoinReply> reply =
        UnaryCall(channel, stub.get(), &Stub::Join, request, deadline_, address, tls);
    // While no token is of use, it takes no connection of who has no certificate.
    if (absl::IsFailedPrecondition(reply.status()) &&
        absl::StrContains(reply.status().message(), "not reached")) {
      return absl::PermissionDeniedError(
          absl::StrCat("the coordinator at ", address,
                       " lets nobody join now: the token is used up, has expired or was revoked; "
                       "ask for another one: `coordinator token create` there"));
    }
    return reply;
  }

 private:
  const absl::Duration deadline_;
};

}  // namespace

std::unique_ptr<JoinClient> JoinClient::Create(absl::Duration deadline) {
  return std::make_unique<TlsJoinClient>(deadline);
}

}  // namespace monsoon
