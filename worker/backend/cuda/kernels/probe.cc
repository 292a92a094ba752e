#include "worker/backend/cuda/kernels/probe.h"

#include <cuda_runtime.h>

#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// Not in an unnamed namespace: its name would differ from one compilation to the next.
__global__ void EmptyKernel() {}

namespace {

bool IsNoCode(cudaError_t code) {
  return code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
         code == cudaErrorUnsupportedPtxVersion || code == cudaErrorInvalidPtx ||
         code == cudaErrorInvalidKernelImage || code == cudaErrorJitCompilerNotFound;
}

}  // namespace

ProbeResult LaunchEmptyKernel(Stream& stream) {
  EmptyKernel<<<1, 1, 0, stream.handle()>>>();
  cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) {
    code = cudaStreamSynchronize(stream.handle());
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
