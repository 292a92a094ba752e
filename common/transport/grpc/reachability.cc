#include "common/transport/grpc/reachability.h"

#include "absl/strings/str_cat.h"
#include "common/config/address.h"

namespace monsoon {

absl::Status CheckReachability(const std::string& address, bool allowed) {
  if (allowed || IsLoopback(address)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("address ", address,
                   " can be reached by other machines, and this user has no credential of the "
                   "cluster on this host; make them (`coordinator cluster init` on the "
                   "coordinator's host, `coordinator join` on others), listen on localhost, or let "
                   "everybody in with --insecure"));
}

}  // namespace monsoon
