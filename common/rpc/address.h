// Addresses of tasks: `host:port`, `unix:PATH` or `unix-abstract:NAME`.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

bool IsUnixAddress(absl::string_view address);

// Whether only this machine can reach it: a Unix socket, localhost, 127.0.0.0/8
// or [::1].
bool IsLoopbackAddress(absl::string_view address);

// FailedPrecondition for an address that others can reach, unless `insecure`:
// there is no TLS yet.
absl::Status CheckReachability(absl::string_view address, bool insecure);

}  // namespace monsoon
