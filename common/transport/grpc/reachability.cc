#include "common/transport/grpc/reachability.h"

#include "absl/strings/str_cat.h"
#include "common/config/address.h"

namespace monsoon {

absl::Status CheckReachability(const std::string& address, bool insecure) {
  if (insecure || IsLoopback(address)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("address ", address,
                   " can be reached by other machines, and there is no TLS; listen on localhost "
                   "or allow it with --insecure"));
}

}  // namespace monsoon
