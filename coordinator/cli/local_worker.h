// Runs the worker binary of this machine for what needs no cluster.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "coordinator/cli/command.h"

namespace monsoon {

// `worker ARGUMENTS...` to its end; it is found as FindBinary does. What it printed,
// without blanks around; or the exit code when the command is over: the worker's, which
// has said why, or ours. `what` is for messages: "evaluation".
std::variant<std::string, int> RunLocalWorker(const Invocation& call, const std::string& bin_dir,
                                              absl::string_view what,
                                              std::vector<std::string> arguments);

}  // namespace monsoon
