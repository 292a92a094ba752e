// In place of device_query.cc in a build without the CUDA toolkit.
#include "worker/backend/cuda/runtime/device_query.h"

namespace monsoon::cuda {

bool BuiltIn() { return false; }

std::string DescribeBuild() { return "CUDA is not built in"; }

DeviceQuery QueryDevices() { return {0, "CUDA is not built in"}; }

std::string DescribeDevice(uint32_t /*device_index*/) { return {}; }

}  // namespace monsoon::cuda
