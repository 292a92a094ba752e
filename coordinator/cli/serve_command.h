// `serve`: the coordinator itself.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

// Serves until SIGTERM or SIGINT, then drains and returns 0. The address it
// listens on goes to --port_file.
int RunServe(Invocation& call);

}  // namespace monsoon
