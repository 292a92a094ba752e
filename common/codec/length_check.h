// What every codec says about bytes that cannot be its own.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

inline absl::Status LengthError(size_t bytes, size_t expected) {
  return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes instead of ", expected));
}

}  // namespace monsoon
