// A server that asks nobody who he is listens where only this machine reaches it, unless its user
// insists.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace monsoon {

// FailedPrecondition for an address that other machines can reach, unless it is `allowed`: by
// credentials, or by the user.
absl::Status CheckReachability(const std::string& address, bool allowed);

}  // namespace monsoon
