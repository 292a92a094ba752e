// How the operations of elementwise.h, image_ops.h and loss_ops.h are run over
// their elements: as CUDA kernels where nvcc compiles this, by loops on the
// host stand-in's stream elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "worker/backend/cuda/kernels/launch_limits.h"
#include "worker/backend/cuda/runtime/error_log.h"
#include "worker/backend/cuda/runtime/runtime.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "worker/backend/cuda/host/host_runtime.h"
#endif

namespace monsoon::cuda {

// The count fits, and nothing has failed before.
inline bool MayLaunch(Stream& stream, const char* what, uint64_t count) {
  if (count > kMaxElements) {
    stream.errors().Add(ErrorLog::Kind::kOutOfMemory, what,
                        std::to_string(count) + " elements, more than 2^31; use a smaller batch");
  }
  return stream.errors().ok() && count > 0;
}

#ifdef __CUDACC__

inline void CheckLaunch(Stream& stream, const char* what) {
  const cudaError_t code = cudaGetLastError();
  if (code != cudaSuccess) {
    stream.errors().Add(ErrorLog::Kind::kDevice, what,
                        "CUDA error " + std::to_string(code) + " (" + cudaGetErrorName(code) +
                            "): " + cudaGetErrorString(code));
  }
}

template <typename Op>
__global__ void __launch_bounds__(kThreads) ForEachKernel(uint32_t count, Op op) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    op(i);
  }
}

// A block per row, see BlocksForRows; the sums of its threads are combined in a fixed
// tree.
template <typename Op>
__global__ void __launch_bounds__(kThreads) ReduceRowsKernel(uint32_t rows, Op op) {
  __shared__ typename Op::Value partial[kThreads];
  const uint32_t thread = threadIdx.x;
  for (uint32_t row = blockIdx.x; row < rows; row += gridDim.x) {
    partial[thread] = op.Partial(row, thread, kThreads);
    for (uint32_t width = kThreads / 2; width > 0; width /= 2) {
      __syncthreads();
      if (thread < width) {
        partial[thread] = Op::Combine(partial[thread], partial[thread + width]);
      }
    }
    if (thread == 0) {
      op.Finish(row, partial[0]);
    }
    __syncthreads();  // The next row writes where the last sums are read.
  }
}

#endif

// op(i) for each i below count.
template <typename Op>
void ForEach(Stream& stream, const char* what, uint64_t count, Op op) {
  if (!MayLaunch(stream, what, count)) {
    return;
  }
#ifdef __CUDACC__
  ForEachKernel<<<BlocksForElements(count), kThreads, 0, stream.handle()>>>(
      static_cast<uint32_t>(count), op);
  CheckLaunch(stream, what);
#else
  EnqueueOnHost(stream, [count, op] {
    for (uint32_t i = 0; i < count; ++i) {
      op(i);
    }
  });
#endif
}

// For each row below `rows`: op.Partial(row, thread, threads) for each thread,
// those combined by Op::Combine, and op.Finish(row, total).
template <typename Op>
void ReduceRows(Stream& stream, const char* what, uint64_t rows, Op op) {
  if (!MayLaunch(stream, what, rows)) {
    return;
  }
#ifdef __CUDACC__
  ReduceRowsKernel<<<BlocksForRows(rows), kThreads, 0, stream.handle()>>>(
      static_cast<uint32_t>(rows), op);
  CheckLaunch(stream, what);
#else
  EnqueueOnHost(stream, [rows, op] {
    for (uint32_t row = 0; row < rows; ++row) {
      typename Op::Value partial[kThreads];
      for (uint32_t thread = 0; thread < kThreads; ++thread) {
        partial[thread] = op.Partial(row, thread, kThreads);
      }
      for (uint32_t width = kThreads / 2; width > 0; width /= 2) {
        for (uint32_t thread = 0; thread < width; ++thread) {
          partial[thread] = Op::Combine(partial[thread], partial[thread + width]);
        }
      }
      op.Finish(row, partial[0]);
    }
  });
#endif
}

}  // namespace monsoon::cuda
