// A mark on an error: the connection was not made, or not to whom it should be, so nobody has heard
// the call. Silence and broken connections are not marked.
//
// Plain functions. Thread safe.
#pragma once

#include "absl/status/status.h"

namespace monsoon {

void MarkUnsent(absl::Status* status);
// Also where NobodyListens (common/base/status.h).
bool IsUnsent(const absl::Status& status);

}  // namespace monsoon
