#include "tests/gpu/device_figures.h"

#include <cuda_runtime.h>

namespace monsoon::roofline {
namespace {

constexpr double kKilohertz = 1e3;

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();  // not known: counts as 0
  }
  return value;
}

}  // namespace

Gpu FiguresOf(uint32_t device_index) {
  const int device = static_cast<int>(device_index);
  cudaDeviceProp named;
  if (cudaGetDeviceProperties(&named, device) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  if (const Gpu* const known = FindGpu(named.name)) {
    return *known;
  }
  GpuProperties properties;
  properties.name = named.name;
  properties.capability = 10 * named.major + named.minor;
  properties.multiprocessors = named.multiProcessorCount;
  properties.clock = kKilohertz * Attribute(cudaDevAttrClockRate, device);
  properties.memory_clock = kKilohertz * Attribute(cudaDevAttrMemoryClockRate, device);
  properties.memory_bus_bits = Attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  properties.cache = Attribute(cudaDevAttrL2CacheSize, device);
  return FromProperties(properties);
}

}  // namespace monsoon::roofline
