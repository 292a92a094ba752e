// SHA-256, and a comparison that takes as long whatever it finds.
//
// Plain functions. Thread safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

inline constexpr size_t kSha256Bytes = 32;

// kSha256Bytes bytes.
std::string Sha256(absl::string_view data);

// Whether both are the same; its time depends on their lengths alone, so that nobody can find
// out a secret byte by byte.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace monsoon
