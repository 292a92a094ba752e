// A kernel that does nothing, to see whether a device runs code of this build.
#pragma once

#include <string>

namespace monsoon::cuda {

struct ProbeResult {
  bool ran = false;
  // The build has no machine code for the device, and no PTX that its driver can
  // translate.
  bool no_code = false;
  std::string problem;  // what CUDA answered
};

// Launches it on the calling thread's device and waits for it; the first call makes
// the device's context.
ProbeResult LaunchEmptyKernel();

}  // namespace monsoon::cuda
