// A diverged model (non-finite loss, too many refused pushes) as a status that
// survives being passed up: the whole job fails, not only the replica.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

absl::Status DivergedError(absl::string_view message);
bool IsDivergedError(const absl::Status& status);

}  // namespace monsoon
