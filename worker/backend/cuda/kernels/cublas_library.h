// The functions of libcublas and libcublasLt that this backend calls, looked up at run
// time.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "worker/backend/cuda/kernels/cublas_api.h"

namespace monsoon::cuda {

struct CublasLibrary {
  CublasCreate create = nullptr;
  CublasDestroy destroy = nullptr;
  CublasSetStream set_stream = nullptr;
  CublasSetWorkspace set_workspace = nullptr;
  CublasSetMathMode set_math_mode = nullptr;
  CublasGemm gemm = nullptr;
  CublasGetVersion get_version = nullptr;
  CublasGetStatusString status_string = nullptr;
  CublasGemmStridedBatched gemm_strided_batched = nullptr;
  std::string problem;  // not empty: it could not be loaded, and why

  // Loaded once per process, on the first call, and never unloaded.
  static const CublasLibrary& Get();
};

// Products with a bias and an activation in one kernel. A network must do without it:
// with a problem all functions may be null.
struct CublasLtLibrary {
  CublasLtCreate create = nullptr;
  CublasLtDestroy destroy = nullptr;
  CublasLtMatmulDescCreate desc_create = nullptr;
  CublasLtMatmulDescDestroy desc_destroy = nullptr;
  CublasLtMatmulDescSetAttribute desc_set = nullptr;
  CublasLtMatrixLayoutCreate layout_create = nullptr;
  CublasLtMatrixLayoutDestroy layout_destroy = nullptr;
  CublasLtMatrixLayoutSetAttribute layout_set = nullptr;
  CublasLtMatmulPreferenceCreate preference_create = nullptr;
  CublasLtMatmulPreferenceDestroy preference_destroy = nullptr;
  CublasLtMatmulPreferenceSetAttribute preference_set = nullptr;
  CublasLtMatmulAlgoGetHeuristic heuristic = nullptr;
  CublasLtMatmul matmul = nullptr;
  std::string problem;

  static const CublasLtLibrary& Get();
};

}  // namespace monsoon::cuda
