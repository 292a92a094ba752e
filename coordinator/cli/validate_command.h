// `validate`: judges cluster, job and model files without starting anything.
#pragma once

#include "coordinator/cli/command.h"

namespace monsoon {

int RunValidate(Invocation& call);

}  // namespace monsoon
