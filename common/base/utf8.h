// UTF-8 as RFC 3629 has it: no overlong forms, surrogates or values over
// U+10FFFF.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// Offset of the first byte that is not part of valid UTF-8, from `start` on;
// npos when there is none.
size_t FindInvalidUtf8(absl::string_view text, size_t start = 0);

// `text`, with "\xe9" for each byte that is not part of valid UTF-8: what a protobuf string may
// hold. Names of files need not be UTF-8.
std::string ValidUtf8(absl::string_view text);

}  // namespace monsoon
