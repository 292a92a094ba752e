#include "worker/backend/cuda/kernels/probe_kernels.h"

#include "worker/backend/cuda/runtime/runtime.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace monsoon::cuda {

#ifdef __CUDACC__

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

#else

// The host stand-in runs any kernel.
ProbeResult LaunchEmptyKernel(Stream& /*stream*/) { return {true, false, {}}; }

#endif

}  // namespace monsoon::cuda
