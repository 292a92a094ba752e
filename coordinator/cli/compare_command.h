// `coordinator compare`: one job in several modes, and a table of what they reach.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunCompare(Invocation& call);

}  // namespace monsoon
