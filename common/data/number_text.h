// Numbers as people's text files write them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/data/access/quoting.h"

namespace monsoon {

// A decimal number, with blanks around it or not, as a float: by way of double, so that it is
// the float that NumPy's astype makes of the same text. InvalidArgument that tells the text as
// Content does: not a number, not finite, or beyond float32.
absl::StatusOr<float> ParseFloat(absl::string_view text, Quoting quoting);
bool IsFloat(absl::string_view text);

// Whether `text` is digits alone, and below 2^32; then its number in `number`.
bool ParseWholeNumber(absl::string_view text, uint32_t* number);

}  // namespace monsoon
