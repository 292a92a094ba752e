// The verbs that move models: submit (with --init and --resume), export, evaluate,
// predict, inspect.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunSubmit(Invocation& call);
int RunExport(Invocation& call);
// These run the sibling worker binary on this machine; no cluster is needed.
int RunEvaluate(Invocation& call);
int RunPredict(Invocation& call);
// Reads checkpoints only.
int RunInspect(Invocation& call);

}  // namespace monsoon
