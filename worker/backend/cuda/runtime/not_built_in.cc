// In place of device_query.cc in a build without the CUDA toolkit.
#include "worker/backend/cuda/runtime/device_query.h"

namespace monsoon::cuda {

bool BuiltIn() { return false; }

std::string DescribeBuild() { return "CUDA is not built in"; }

std::string BuiltTargets() { return {}; }

DeviceQuery QueryDevices() { return {0, "CUDA is not built in", true}; }

std::string DescribeDevice(uint32_t /*device_index*/) { return {}; }

int ComputeCapability(uint32_t /*device_index*/) { return 0; }

}  // namespace monsoon::cuda
