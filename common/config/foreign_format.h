// Texts that people take for a configuration file and that are of another format: what to say
// in place of an error at each of their signs.
#pragma once

#include <optional>
#include <string>

#include "common/config/diagnostics.h"

namespace monsoon {

// Nothing: `contents` may be protobuf text.
std::optional<Diagnostic> ForeignFormat(const std::string& file, const std::string& contents);

}  // namespace monsoon
