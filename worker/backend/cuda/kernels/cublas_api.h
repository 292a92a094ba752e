// What this backend uses of the interfaces of cuBLAS and cuBLASLt: types, the values of
// NVIDIA's enumerations, and the functions as pointers, since the libraries are loaded
// at run time. The names are NVIDIA's, in a namespace of ours; with them here a build
// needs no header of cuBLAS. cublas_api_test.cc compares them with NVIDIA's headers where
// there are any. The values are part of the libraries' binary interface: the same in
// versions 12 and 13.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;
struct cublasContext;
struct cublasLtContext;

namespace monsoon::cuda {

using cublasHandle_t = ::cublasContext*;
using cublasLtHandle_t = ::cublasLtContext*;
using CublasStream = ::CUstream_st*;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cublasOperation_t : int {
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
};

enum cudaDataType : int {
  CUDA_R_32F = 0,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
};
using cudaDataType_t = cudaDataType;

enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cublasMath_t : int {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};

enum cublasGemmAlgo_t : int {
  CUBLAS_GEMM_DEFAULT = -1,
};

using CublasCreate = cublasStatus_t (*)(cublasHandle_t*);
using CublasDestroy = cublasStatus_t (*)(cublasHandle_t);
using CublasSetStream = cublasStatus_t (*)(cublasHandle_t, CublasStream);
using CublasSetWorkspace = cublasStatus_t (*)(cublasHandle_t, void*, size_t);
using CublasSetMathMode = cublasStatus_t (*)(cublasHandle_t, cublasMath_t);
using CublasGetVersion = cublasStatus_t (*)(cublasHandle_t, int*);
using CublasGetStatusString = const char* (*)(cublasStatus_t);
// handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype,
// ldc, computeType, algo
using CublasGemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                      int, int, const void*, const void*, cudaDataType, int,
                                      const void*, cudaDataType, int, const void*, void*,
                                      cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
// The same with a stride after each leading dimension, and batchCount before computeType.
using CublasGemmStridedBatched = cublasStatus_t (*)(
    cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
    cudaDataType, int, long long, const void*, cudaDataType, int, long long, const void*, void*,
    cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t);

// ---- cuBLASLt ----------------------------------------------------------------------------

enum cublasLtOrder_t : int {
  CUBLASLT_ORDER_COL = 0,
  CUBLASLT_ORDER_ROW = 1,
};

enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                 // int32_t
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,           // int32_t
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,  // int64_t
};

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,                   // int32_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,                   // int32_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                 // uint32_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,             // void*
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,    // void*
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,         // int64_t
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,  // int32_t
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,          // int32_t
};

enum cublasLtEpilogue_t : int {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6,
  CUBLASLT_EPILOGUE_RELU_AUX = 130,
  CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
  CUBLASLT_EPILOGUE_DRELU = 136,
  CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};

enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
};

enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    // uint64_t
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,  // uint32_t
};

// Made and freed by the library; only pointers to them are passed.
struct CublasLtMatmulDesc;
struct CublasLtMatrixLayout;
struct CublasLtMatmulPreference;
using cublasLtMatmulDesc_t = CublasLtMatmulDesc*;
using cublasLtMatrixLayout_t = CublasLtMatrixLayout*;
using cublasLtMatmulPreference_t = CublasLtMatmulPreference*;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

using CublasLtCreate = cublasStatus_t (*)(cublasLtHandle_t*);
using CublasLtDestroy = cublasStatus_t (*)(cublasLtHandle_t);
using CublasLtMatmulDescCreate = cublasStatus_t (*)(cublasLtMatmulDesc_t*, cublasComputeType_t,
                                                    cudaDataType);
using CublasLtMatmulDescDestroy = cublasStatus_t (*)(cublasLtMatmulDesc_t);
using CublasLtMatmulDescSetAttribute = cublasStatus_t (*)(cublasLtMatmulDesc_t,
                                                          cublasLtMatmulDescAttributes_t,
                                                          const void*, size_t);
// rows, cols, ld
using CublasLtMatrixLayoutCreate = cublasStatus_t (*)(cublasLtMatrixLayout_t*, cudaDataType,
                                                      uint64_t, uint64_t, int64_t);
using CublasLtMatrixLayoutDestroy = cublasStatus_t (*)(cublasLtMatrixLayout_t);
using CublasLtMatrixLayoutSetAttribute = cublasStatus_t (*)(cublasLtMatrixLayout_t,
                                                            cublasLtMatrixLayoutAttribute_t,
                                                            const void*, size_t);
using CublasLtMatmulPreferenceCreate = cublasStatus_t (*)(cublasLtMatmulPreference_t*);
using CublasLtMatmulPreferenceDestroy = cublasStatus_t (*)(cublasLtMatmulPreference_t);
using CublasLtMatmulPreferenceSetAttribute = cublasStatus_t (*)(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t);
// handle, operation, A, B, C, D, preference, requested, results, returned
using CublasLtMatmulAlgoGetHeuristic =
    cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                       cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*, int*);
// handle, operation, alpha, A, layout, B, layout, beta, C, layout, D, layout, algo,
// workspace, bytes, stream
using CublasLtMatmul = cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*,
                                          const void*, cublasLtMatrixLayout_t, const void*,
                                          cublasLtMatrixLayout_t, const void*, const void*,
                                          cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                          const cublasLtMatmulAlgo_t*, void*, size_t, CublasStream);

}  // namespace monsoon::cuda
