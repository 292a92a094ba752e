// One call to the cluster's coordinator that every member makes, whatever it is else: for another
// certificate (proto/member.proto, MemberService.Renew).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/grpc/tls.h"

namespace monsoon {

// PEM. `signing_request` is of the identity that `tls` shows. Errors are the coordinator's, or name
// its address. Blocks for 5 s at most.
absl::StatusOr<std::string> RenewCertificate(const std::string& coordinator,
                                             const std::shared_ptr<Tls>& tls,
                                             const std::string& cluster,
                                             const std::string& signing_request);

}  // namespace monsoon
