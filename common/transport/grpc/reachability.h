// Without TLS a server listens where only this machine reaches it, unless its
// user insists.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace monsoon {

// FailedPrecondition for an address that other machines can reach, unless
// `insecure`.
absl::Status CheckReachability(const std::string& address, bool insecure);

}  // namespace monsoon
