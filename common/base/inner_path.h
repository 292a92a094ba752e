// Names that others give and that may become paths, as a tensor's in an archive that somebody
// unpacks.
#pragma once

#include "absl/strings/string_view.h"

namespace monsoon {

// Whether a file called so, in any folder, lies in that folder: `name` does not begin with '/' or
// '~', has neither '\\' nor control characters, and none of its parts is "", "." or "..".
bool IsInnerPath(absl::string_view name);

}  // namespace monsoon
