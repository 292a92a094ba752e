#include "worker/backend/cuda/runtime/device_rates.h"

#include <cuda_runtime.h>

namespace monsoon::cuda {
namespace {

constexpr double kKilohertz = 1e3;

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return value;
}

}  // namespace

DeviceRates QueryRates(uint32_t device_index) {
  const int device = static_cast<int>(device_index);
  DeviceRates rates;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();
    return rates;
  }
  rates.name = properties.name;
  rates.capability = 10 * properties.major + properties.minor;
  rates.multiprocessors = properties.multiProcessorCount;
  rates.clock = kKilohertz * Attribute(cudaDevAttrClockRate, device);
  rates.memory_clock = kKilohertz * Attribute(cudaDevAttrMemoryClockRate, device);
  rates.memory_bus_bits = Attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  rates.cache = Attribute(cudaDevAttrL2CacheSize, device);
  return rates;
}

}  // namespace monsoon::cuda
