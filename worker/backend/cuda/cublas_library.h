// The functions of libcublas that this backend calls, looked up at run time.
#pragma once

#include <cublas_v2.h>

#include <string>

namespace monsoon::cuda {

struct CublasLibrary {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasGemmEx) gemm = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  std::string problem;  // not empty: it could not be loaded, and why

  // Loaded once per process, on the first call, and never unloaded.
  static const CublasLibrary& Get();
};

}  // namespace monsoon::cuda
