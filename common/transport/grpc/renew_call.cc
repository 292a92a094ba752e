#include "common/transport/grpc/renew_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/transport/grpc/call_bytes.h"
#include "common/transport/grpc/channel.h"
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
  RenewRequest request;
  request.set_cluster(cluster);
  request.set_signing_request(signing_request);
  const absl::StatusOr<std::string> bytes =
      CallBytes(MakeChannel(coordinator, tls, Role::kCoordinator), kMethod,
                request.SerializeAsString(), kDeadline, /*waits=*/false);
  if (!bytes.ok()) {
    return Annotate(bytes.status(), absl::StrCat("coordinator at ", coordinator));
  }
  MemberCertificate answer;
  if (!answer.ParseFromString(*bytes)) {
    return absl::InternalError(
        absl::StrCat("coordinator at ", coordinator, ": its answer cannot be read"));
  }
  return std::move(*answer.mutable_certificate());
}

}  // namespace monsoon
