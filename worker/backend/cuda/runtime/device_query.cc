#include "worker/backend/cuda/runtime/device_query.h"

#include <cuda_runtime_api.h>

#include <optional>

#include "worker/backend/cuda/runtime/driver_problem.h"

namespace monsoon::cuda {
namespace {

DeviceQuery Ask() {
  DeviceQuery query;
  const cudaError_t code = cudaGetDeviceCount(&query.count);
  if (code == cudaSuccess && query.count > 0) {
    return query;
  }
  DriverAnswer answer;
  answer.code = code;
  answer.text = cudaGetErrorString(code);
  if (cudaDriverGetVersion(&answer.driver_version) != cudaSuccess) {
    answer.driver_version = 0;
  }
  answer.runtime_version = CUDART_VERSION;
  answer.gpu_seen = HasNvidiaGpu();
  cudaGetLastError();  // Not a later call's error.
  DriverProblem problem = Explain(answer);
  return {0, std::move(problem.text), problem.expected};
}

std::optional<cudaDeviceProp> Properties(uint32_t device_index) {
  cudaDeviceProp properties;
  if (device_index >= static_cast<uint32_t>(QueryDevices().count) ||
      cudaGetDeviceProperties(&properties, static_cast<int>(device_index)) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  return properties;
}

}  // namespace

bool BuiltIn() { return true; }

std::string DescribeBuild() {
  return "CUDA " + VersionText(CUDART_VERSION) + " built in for " + BuiltTargets();
}

std::string BuiltTargets() { return MONSOON_CUDA_TARGETS; }

DeviceQuery QueryDevices() {
  static const DeviceQuery query = Ask();
  return query;
}

std::string DescribeDevice(uint32_t device_index) {
  const std::optional<cudaDeviceProp> properties = Properties(device_index);
  return !properties ? ""
                     : std::string(properties->name) + ", sm_" + std::to_string(properties->major) +
                           std::to_string(properties->minor) + ", " +
                           std::to_string(properties->totalGlobalMem >> 30) + " GiB";
}

int ComputeCapability(uint32_t device_index) {
  const std::optional<cudaDeviceProp> properties = Properties(device_index);
  return properties ? properties->major * 10 + properties->minor : 0;
}

}  // namespace monsoon::cuda
