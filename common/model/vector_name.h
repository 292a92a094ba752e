// Names of a batch job's vectors (proto/parameter_server.proto).
//
// Thread safety: pure function.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace monsoon {

inline constexpr size_t kMaxVectorName = 32;

// InvalidArgument for a name that is not 1 to 32 printable ASCII characters without
// blanks.
absl::Status CheckVectorName(const std::string& name);

}  // namespace monsoon
