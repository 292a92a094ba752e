// How cuBLAS and cuBLASLt are asked for what a precision means.
#pragma once

#include "worker/backend/cuda/kernels/cublas_api.h"
#include "worker/backend/cuda/kernels/precision.h"

namespace monsoon::cuda {

inline cublasOperation_t Operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

inline cudaDataType_t FactorType(Precision precision) {
  switch (precision) {
    case Precision::kBfloat16:
      return CUDA_R_16BF;
    case Precision::kFloat16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

inline cublasComputeType_t ComputeType(Precision precision) {
  return precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace monsoon::cuda
