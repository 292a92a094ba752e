// MONSOON_PORTABLE marks what runs on the GPU and, compiled by a plain C++
// compiler, on the CPU: all arithmetic of the kernels stands in such functions,
// so that tests run it without a GPU.
#pragma once

#ifdef __CUDACC__
#define MONSOON_PORTABLE __host__ __device__ inline
#else
#define MONSOON_PORTABLE inline
#endif
