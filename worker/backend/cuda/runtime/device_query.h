// What this build has of CUDA and what the machine has of GPUs. One of
// device_query.cc (with the toolkit) and not_built_in.cc is linked in.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::cuda {

struct DeviceQuery {
  int count = 0;
  std::string problem;    // why there is none
  bool expected = false;  // ... which is no reason to act, see DriverProblem
};

bool BuiltIn();
// "CUDA 13.0 built in for sm_80, PTX compute_90".
std::string DescribeBuild();
// "sm_80, PTX compute_90".
std::string BuiltTargets();

// Never fails; asks CUDA once per process, the first call may take 100 ms.
DeviceQuery QueryDevices();

// Name, compute capability and memory; empty when there is no such device.
std::string DescribeDevice(uint32_t device_index);

// 75 for sm_75; 0 when there is no such device.
int ComputeCapability(uint32_t device_index);

}  // namespace monsoon::cuda
