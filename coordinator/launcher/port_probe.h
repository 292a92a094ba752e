// Whether an address is free to listen on, asked before anything is started.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace monsoon {

// OK when a listener could bind `address` now. AlreadyExists names the address
// and, where /proc tells, the process that holds it. The bind is undone; a
// stale Unix socket file with nobody behind it counts as free.
absl::Status CheckAddressFree(const std::string& address);

}  // namespace monsoon
