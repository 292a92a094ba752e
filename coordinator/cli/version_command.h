// `version`: what this binary is.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunVersion(Invocation& call);

}  // namespace monsoon
