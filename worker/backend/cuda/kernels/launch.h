// How the operations of a pair *_kernels.{h,cc} are run over their elements: as CUDA
// kernels where nvcc compiles this, by loops on the host stand-in's stream elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "worker/backend/cuda/kernels/divisor.h"
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

// A block for 2^shift columns of a slice: thread t adds lane t >> shift of the column
// that its low bits say; the lanes are combined in a fixed tree.
template <typename Op>
__global__ void __launch_bounds__(kThreads)
    ReduceColumnsKernel(uint32_t columns, uint32_t shift, Divisor blocks_of_slice, Op op) {
  __shared__ typename Op::Value partial[kThreads];
  const uint32_t thread = threadIdx.x;
  const uint32_t width = 1u << shift;
  const uint32_t slice = blocks_of_slice.Quotient(blockIdx.x);
  const uint32_t column =
      (blockIdx.x - slice * blocks_of_slice.value()) * width + (thread & (width - 1));
  partial[thread] = column < columns ? op.Partial(column, slice, thread >> shift, kThreads >> shift)
                                     : typename Op::Value{};
  for (uint32_t half = kThreads / 2; half >= width; half /= 2) {
    __syncthreads();
    if (thread < half) {
      partial[thread] = Op::Combine(partial[thread], partial[thread + half]);
    }
  }
  if (thread < width && column < columns) {
    op.Finish(column, slice, partial[thread]);
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

// The columns that a block of ReduceColumns takes: neighbours, so that threads read
// neighbours; fewer where there are fewer, for more lanes. A power of two.
inline uint32_t BlockColumns(uint64_t columns) {
  uint32_t width = 1;
  while (width < 32 && width < columns) {
    width *= 2;
  }
  return width;
}

// For each column below `columns` and slice below `slices`: op.Partial(column, slice,
// lane, lanes) for each lane, those combined by Op::Combine, and op.Finish(column,
// slice, total). lanes = kThreads / BlockColumns(columns).
template <typename Op>
void ReduceColumns(Stream& stream, const char* what, uint64_t columns, uint64_t slices, Op op) {
  if (!MayLaunch(stream, what, columns * slices)) {
    return;
  }
  const uint32_t width = BlockColumns(columns);
#ifdef __CUDACC__
  const uint32_t blocks_of_slice = static_cast<uint32_t>((columns + width - 1) / width);
  const uint32_t blocks = static_cast<uint32_t>(blocks_of_slice * slices);
  uint32_t shift = 0;
  while ((1u << shift) < width) {
    ++shift;
  }
  ReduceColumnsKernel<<<blocks, kThreads, 0, stream.handle()>>>(
      static_cast<uint32_t>(columns), shift, Divisor(blocks_of_slice), op);
  CheckLaunch(stream, what);
#else
  EnqueueOnHost(stream, [columns, slices, width, op] {
    const uint32_t lanes = kThreads / width;
    for (uint32_t slice = 0; slice < slices; ++slice) {
      for (uint32_t column = 0; column < columns; ++column) {
        typename Op::Value partial[kThreads];
        for (uint32_t lane = 0; lane < lanes; ++lane) {
          partial[lane] = op.Partial(column, slice, lane, lanes);
        }
        for (uint32_t half = lanes / 2; half > 0; half /= 2) {
          for (uint32_t lane = 0; lane < half; ++lane) {
            partial[lane] = Op::Combine(partial[lane], partial[lane + half]);
          }
        }
        op.Finish(column, slice, partial[0]);
      }
    }
  });
#endif
}

}  // namespace monsoon::cuda
