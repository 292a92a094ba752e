// MONSOON_PORTABLE marks what runs on the GPU and, compiled by a plain C++
// compiler, on the CPU: all arithmetic of the kernels stands in such functions,
// so that tests run it without a GPU.
//
// MONSOON_ROLLED before a loop: it is short, and unrolled it would only cost registers
// and branches.
#pragma once

#ifdef __CUDACC__
#define MONSOON_PORTABLE __host__ __device__ inline
#else
#define MONSOON_PORTABLE inline
#endif

#ifdef __CUDA_ARCH__
#define MONSOON_ROLLED _Pragma("unroll 1")
#else
#define MONSOON_ROLLED
#endif
