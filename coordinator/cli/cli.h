// The coordinator's command line: `coordinator VERB ...`.
#pragma once

#include <span>

#include "coordinator/cli/command.h"
#include "coordinator/cli/environment.h"

namespace monsoon {

// Runs one of `commands`, or `help`; returns the exit code. `args` come after
// the program's name.
int RunCli(std::span<const Command> commands, std::span<const char* const> args,
           Environment* environment);

// All verbs but `serve`, which needs the server.
std::span<const Command> ClientCommands();

}  // namespace monsoon
