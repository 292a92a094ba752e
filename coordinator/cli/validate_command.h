// `validate`: judges cluster, job and model files without starting anything.
#pragma once

#include <string>

#include "common/config/config_file.h"
#include "coordinator/cli/command.h"

namespace monsoon {

int RunValidate(Invocation& call);

// What a file is meant to be, by the names of its top-level fields; by its
// path where they do not tell.
ConfigKind GuessConfigKind(const std::string& path, const std::string& text);

}  // namespace monsoon
