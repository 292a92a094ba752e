// A kernel that does nothing, to see whether a device runs code of this build.
#pragma once

#include <string>

namespace monsoon::cuda {

class Stream;

struct ProbeResult {
  bool ran = false;
  // The build has no machine code for the device, and no PTX that its driver can
  // translate.
  bool no_code = false;
  std::string problem;  // what CUDA answered
};

// Launches it and waits for it. Notes nothing in the stream's ErrorLog.
ProbeResult LaunchEmptyKernel(Stream& stream);

}  // namespace monsoon::cuda
