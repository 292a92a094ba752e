#include <memory>
#include <string>
#include <utility>

#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/unary_call.h"
#include "coordinator/client/member_client.h"
#include "proto/member.grpc.pb.h"

namespace monsoon {
namespace {

using Stub = MemberService::Stub;

class GrpcMemberClient : public MemberClient {
 public:
  GrpcMemberClient(const std::string& address, absl::Duration deadline, std::string cluster,
                   const std::shared_ptr<Tls>& tls)
      : address_(address),
        deadline_(deadline),
        cluster_(std::move(cluster)),
        tls_(tls),
        channel_(MakeChannel(address, tls, Role::kCoordinator)),
        stub_(MemberService::NewStub(channel_)) {}

  absl::StatusOr<MemberCertificate> Renew(const std::string& signing_request) override {
    RenewRequest request;
    request.set_signing_request(signing_request);
    return Call(&Stub::Renew, request);
  }
  absl::StatusOr<CreateTokenReply> CreateToken(const CreateTokenRequest& request) override {
    return Call(&Stub::CreateToken, request);
  }
  absl::StatusOr<ListTokensReply> ListTokens() override {
    return Call(&Stub::ListTokens, ListTokensRequest());
  }
  absl::StatusOr<TokenStatus> RevokeToken(const std::string& id) override {
    RevokeTokenRequest request;
    request.set_id(id);
    return Call(&Stub::RevokeToken, request);
  }
  absl::StatusOr<ListMembersReply> ListMembers() override {
    return Call(&Stub::ListMembers, ListMembersRequest());
  }
  absl::StatusOr<RevokeMemberReply> RevokeMember(const std::string& member) override {
    RevokeMemberRequest request;
    request.set_member(member);
    return Call(&Stub::RevokeMember, request);
  }

 private:
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Reply*),
                             Request request) {
    request.set_cluster(cluster_);
    return UnaryCall(channel_, stub_.get(), method, request, deadline_, address_, tls_);
  }

  const std::string address_;
  const absl::Duration deadline_;
  const std::string cluster_;
  const std::shared_ptr<Tls> tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

std::unique_ptr<MemberClient> MemberClient::Create(const std::string& address,
                                                   absl::Duration deadline,
                                                   const std::string& cluster,
                                                   const std::shared_ptr<Tls>& tls) {
  return std::make_unique<GrpcMemberClient>(address, deadline, cluster, tls);
}

}  // namespace monsoon
