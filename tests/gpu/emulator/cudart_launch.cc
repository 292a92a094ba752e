// libcudart's calls that nvcc writes: registration of kernels, and launches.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/fat_binary.h"
#include "tests/gpu/emulator/launch.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {
namespace {

struct Function {
  std::string name;
  const FatBinary* binary;
};

// By the address of the host's stub. Filled before main.
std::map<const void*, Function>& Functions() {
  static auto* const functions = new std::map<const void*, Function>;
  return *functions;
}

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};

std::vector<Configuration>& Configurations() {
  static thread_local std::vector<Configuration> configurations;
  return configurations;
}

const Function* FindFunction(const void* stub) {
  const auto found = Functions().find(stub);
  return found == Functions().end() ? nullptr : &found->second;
}

std::vector<uint8_t> Pack(const Kernel& kernel, void** arguments) {
  std::vector<uint8_t> packed(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelParameter& parameter = kernel.parameters[i];
    std::memcpy(packed.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return packed;
}

cudaError_t LaunchFunction(const Function* function, dim3 grid, dim3 block, void** arguments,
                           size_t shared, cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  if (function == nullptr) {
    return Return(cudaErrorInvalidDeviceFunction);
  }
  if (!function->binary->HasCodeFor(TheSettings().capability)) {
    return Return(cudaErrorNoKernelImageForDevice);
  }
  const Kernel* const kernel = FindKernel(function->name);
  if (kernel == nullptr) {
    Report("misuse", function->name + ": its PTX is not linked in");
    return Return(cudaErrorInvalidDeviceFunction);
  }
  Stream* const stream = FindStream(handle, kernel->name);
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const LaunchConfiguration configuration{
      {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<uint32_t>(shared)};
  if (!IsValid(*kernel, configuration)) {
    return Return(cudaErrorInvalidConfiguration);
  }
  Enqueue(*stream, kernel->name,
          [kernel, configuration, device = stream->device,
           parameters = Pack(*kernel, arguments)]() -> Run {
            return [=](uint32_t operation) {
              RunKernel(*kernel, configuration, device, parameters, operation);
            };
          });
  return cudaSuccess;
}

}  // namespace
}  // namespace monsoon::emulator

using namespace monsoon::emulator;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(new FatBinary(wrapper));
}

void __cudaRegisterFatBinaryEnd(void** /*binary*/) {}

void __cudaUnregisterFatBinary(void** /*binary*/) {}

char __cudaInitModule(void** /*binary*/) { return 1; }

void __cudaRegisterFunction(void** binary, const char* stub, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                            dim3* /*block*/, dim3* /*grid*/, int* /*warp_size*/) {
  Functions()[stub] = {name, reinterpret_cast<const FatBinary*>(binary)};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  Configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Configuration configuration = Configurations().back();
  Configurations().pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const Function* const function = FindFunction(stub);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Function*>(function));
  return Return(function == nullptr ? cudaErrorInvalidDeviceFunction : DriverProblem());
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return LaunchFunction(reinterpret_cast<const Function*>(kernel), grid, block, arguments, shared,
                        stream);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return LaunchFunction(FindFunction(stub), grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  const Function* const function = FindFunction(stub);
  if (function == nullptr) {
    return Return(cudaErrorInvalidDeviceFunction);
  }
  if (!function->binary->HasCodeFor(TheSettings().capability)) {
    return Return(cudaErrorNoKernelImageForDevice);
  }
  const Kernel* const kernel = FindKernel(function->name);
  if (kernel == nullptr) {
    return Return(cudaErrorInvalidDeviceFunction);
  }
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = kernel->shared_bytes;
  attributes->localSizeBytes = kernel->local_bytes;
  attributes->maxThreadsPerBlock =
      kernel->max_threads == 0 ? 1024 : static_cast<int>(kernel->max_threads);
  attributes->binaryVersion = TheSettings().capability;
  attributes->ptxVersion = TheSettings().capability;
  return cudaSuccess;
}

}  // extern "C"
