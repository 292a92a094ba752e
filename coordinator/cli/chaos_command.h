// `chaos`: kills, stops and slows local tasks of a running cluster by a plan.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunChaos(Invocation& call);

}  // namespace monsoon
