#include "worker/backend/cuda/kernels/probe.h"

#include <cuda_runtime.h>

namespace monsoon::cuda {
namespace {

__global__ void EmptyKernel() {}

bool IsNoCode(cudaError_t code) {
  return code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
         code == cudaErrorUnsupportedPtxVersion || code == cudaErrorInvalidPtx ||
         code == cudaErrorInvalidKernelImage || code == cudaErrorJitCompilerNotFound;
}

}  // namespace

ProbeResult LaunchEmptyKernel() {
  EmptyKernel<<<1, 1>>>();
  cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) {
    code = cudaDeviceSynchronize();
  }
  if (code == cudaSuccess) {
    return {true, false, {}};
  }
  cudaGetLastError();
  return {false, IsNoCode(code),
          "CUDA error " + std::to_string(code) + " (" + cudaGetErrorName(code) +
              "): " + cudaGetErrorString(code)};
}

}  // namespace monsoon::cuda
