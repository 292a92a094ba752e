// Looks a host's name up, for a limited time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace monsoon {

// The IP addresses, as text and each once, of a name that the system's resolver knows, or of an IP
// address. NOT_FOUND, or UNAVAILABLE where it could not tell within `timeout`, names the host.
// Blocks so long at most. Thread safe.
absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host,
                                                    absl::Duration timeout);

}  // namespace monsoon
