// The standard output of a program that writes one thing and ends.
#pragma once

#include "absl/strings/string_view.h"

namespace monsoon {

// Writes `text` and sees that it got where it was to go. False: it did not, a full disk
// perhaps, and the standard error says so in the name of `program`, which must not exit with 0.
bool WriteOutput(const char* program, absl::string_view text);

}  // namespace monsoon
