#include "common/transport/grpc/renew_call.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/impl/client_unary_call.h"
#include "proto/member.pb.h"

namespace monsoon {
namespace {

constexpr char kMethod[] = "/monsoon.MemberService/Renew";
constexpr absl::Duration kDeadline = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::string> RenewCertificate(const std::string& coordinator,
                                             const std::shared_ptr<Tls>& tls,
                                             const std::string& cluster,
                                             const std::string& signing_request) {
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(coordinator, tls, Role::kCoordinator);
  const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  SetDeadline(&context, kDeadline);
  RenewRequest request;
  request.set_cluster(cluster);
  request.set_signing_request(signing_request);
  MemberCertificate answer;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<RenewRequest, MemberCertificate,
                                                                google::protobuf::MessageLite,
                                                                google::protobuf::MessageLite>(
      channel.get(), method, &context, request, &answer);
  if (!status.ok()) {
    return Annotate(FromGrpcStatus(status), absl::StrCat("coordinator at ", coordinator));
  }
  return std::move(*answer.mutable_certificate());
}

}  // namespace monsoon
