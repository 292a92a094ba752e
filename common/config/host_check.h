// Looks a host's name up, for a limited time.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace monsoon {

// OK for an IP address or a name that the system's resolver knows. NOT_FOUND, or
// UNAVAILABLE where it could not tell within `timeout`, names the host. Blocks so
// long at most. Thread safe.
absl::Status CheckHostIsKnown(const std::string& host, absl::Duration timeout);

}  // namespace monsoon
