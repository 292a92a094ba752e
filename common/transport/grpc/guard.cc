#include "common/transport/grpc/guard.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/security/access.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/server_context.h"

namespace monsoon {

Guard::Membership Guard::NotRevoked(const RevokedKeys* revoked) {
  return [revoked](const Peer& member) {
    return revoked->Contains(member.key_fingerprint)
               ? absl::PermissionDeniedError(absl::StrCat(
                     MemberName(member.identity), " was thrown out of cluster ",
                     member.identity.cluster,
                     " (`coordinator member revoke` there); ask for a new token and join again"))
               : absl::OkStatus();
  };
}

absl::StatusOr<Caller> Guard::Identify(const grpc::ServerContextBase& context) const {
  Caller caller{.address = context.peer(), .open = tls_ == nullptr};
  if (caller.open) {
    return caller;
  }
  const std::vector<grpc::string_ref> certificates =
      context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!certificates.empty()) {
    const grpc::string_ref& pem = certificates.front();
    ASSIGN_OR_RETURN(caller.member, tls_->Verify(std::string(pem.data(), pem.size())));
  }
  return caller;
}

absl::Status Guard::CheckMember(const Caller& caller) const {
  return membership_ != nullptr && caller.member.has_value() ? membership_(*caller.member)
                                                             : absl::OkStatus();
}

absl::StatusOr<Caller> Guard::Admit(const grpc::ServerContextBase& context,
                                    absl::string_view method) const {
  ASSIGN_OR_RETURN(Caller caller, Identify(context));
  RETURN_IF_ERROR(CheckMember(caller));
  RETURN_IF_ERROR(CheckCall(caller, method));
  if (connections_ != nullptr && caller.member.has_value()) {
    RETURN_IF_ERROR(
        connections_->NoteMember(caller.address, QuotaName(caller), Clock::Real()->Now()));
  }
  return caller;
}

}  // namespace monsoon
