// `up`: the local tasks of a cluster file.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunUpCommand(Invocation& call);

}  // namespace monsoon
