// The functions of libcublas that this backend calls, looked up at run time.
#pragma once

#include <cublas_v2.h>

#include <string>

namespace monsoon::cuda {

// cublasGemmEx and cublasGemmStridedBatchedEx have two overloads in C++; the library's
// own are these.
using CublasGemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                      int, int, const void*, const void*, cudaDataType, int,
                                      const void*, cudaDataType, int, const void*, void*,
                                      cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

using CublasGemmBatch = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t,
                                           int, int, int, const void*, const void*, cudaDataType,
                                           int, long long, const void*, cudaDataType, int,
                                           long long, const void*, void*, cudaDataType, int,
                                           long long, int, cublasComputeType_t, cublasGemmAlgo_t);

struct CublasLibrary {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  CublasGemm gemm = nullptr;
  CublasGemmBatch gemm_batch = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  std::string problem;  // not empty: it could not be loaded, and why

  // Loaded once per process, on the first call, and never unloaded.
  static const CublasLibrary& Get();
};

}  // namespace monsoon::cuda
