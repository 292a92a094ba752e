// A mark on an error: it is the same again until somebody changes files, so nobody tries again.
//
// Plain functions.
#pragma once

#include "absl/status/status.h"

namespace monsoon {

void MarkLasting(absl::Status* status);
bool IsLasting(const absl::Status& status);

}  // namespace monsoon
