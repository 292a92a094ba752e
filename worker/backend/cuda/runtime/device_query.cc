#include "worker/backend/cuda/runtime/device_query.h"

#include <cuda_runtime_api.h>

namespace monsoon::cuda {
namespace {

// CUDART_VERSION and cudaDriverGetVersion: 1000 * major + 10 * minor.
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceQuery Ask() {
  DeviceQuery query;
  const cudaError_t code = cudaGetDeviceCount(&query.count);
  if (code != cudaSuccess) {
    query.count = 0;
    query.problem = std::string("cudaGetDeviceCount answered error ") + std::to_string(code) +
                    ": " + cudaGetErrorString(code);
    cudaGetLastError();  // Not a later call's error.
  } else if (query.count == 0) {
    query.problem = "cudaGetDeviceCount answered 0";
  }
  return query;
}

}  // namespace

bool BuiltIn() { return true; }

std::string DescribeBuild() {
  return "CUDA " + VersionText(CUDART_VERSION) + " built in for " MONSOON_CUDA_TARGETS;
}

DeviceQuery QueryDevices() {
  static const DeviceQuery query = Ask();
  return query;
}

std::string DescribeDevice(uint32_t device_index) {
  cudaDeviceProp properties;
  if (device_index >= static_cast<uint32_t>(QueryDevices().count) ||
      cudaGetDeviceProperties(&properties, static_cast<int>(device_index)) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major) +
         std::to_string(properties.minor) + ", " + std::to_string(properties.totalGlobalMem >> 30) +
         " GiB";
}

}  // namespace monsoon::cuda
