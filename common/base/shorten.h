// Shorten: text of unknown length, for messages.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

// `text`, or where it has more than `most` bytes its beginning, at most so long and
// cut between UTF-8 characters, and "...".
std::string Shorten(absl::string_view text, size_t most);

}  // namespace monsoon
