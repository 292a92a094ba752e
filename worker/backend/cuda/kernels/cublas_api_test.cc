// cublas_api.h against NVIDIA's headers, by the compiler; without them nothing is
// compared, and the case says so.
#include "worker/backend/cuda/kernels/cublas_api.h"

#include "gtest/gtest.h"

#if __has_include(<cublas_v2.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

#include <type_traits>

namespace monsoon::cuda {
namespace {

// Each value of ours is NVIDIA's.
#define SAME(name) static_assert(static_cast<int>(name) == static_cast<int>(::name), #name)
SAME(CUBLAS_STATUS_SUCCESS);
SAME(CUBLAS_STATUS_NOT_INITIALIZED);
SAME(CUBLAS_STATUS_ALLOC_FAILED);
SAME(CUBLAS_STATUS_INVALID_VALUE);
SAME(CUBLAS_STATUS_ARCH_MISMATCH);
SAME(CUBLAS_STATUS_EXECUTION_FAILED);
SAME(CUBLAS_STATUS_INTERNAL_ERROR);
SAME(CUBLAS_STATUS_NOT_SUPPORTED);
SAME(CUBLAS_OP_N);
SAME(CUBLAS_OP_T);
SAME(CUDA_R_32F);
SAME(CUDA_R_16F);
SAME(CUDA_R_16BF);
SAME(CUBLAS_COMPUTE_32F);
SAME(CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(CUBLAS_DEFAULT_MATH);
SAME(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
SAME(CUBLAS_GEMM_DEFAULT);
SAME(CUBLASLT_ORDER_COL);
SAME(CUBLASLT_ORDER_ROW);
SAME(CUBLASLT_MATRIX_LAYOUT_ORDER);
SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(CUBLASLT_MATMUL_DESC_TRANSA);
SAME(CUBLASLT_MATMUL_DESC_TRANSB);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
SAME(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(CUBLASLT_EPILOGUE_DEFAULT);
SAME(CUBLASLT_EPILOGUE_RELU);
SAME(CUBLASLT_EPILOGUE_BIAS);
SAME(CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(CUBLASLT_EPILOGUE_RELU_AUX);
SAME(CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
SAME(CUBLASLT_EPILOGUE_DRELU);
SAME(CUBLASLT_EPILOGUE_DRELU_BGRAD);
SAME(CUBLASLT_EPILOGUE_BGRADA);
SAME(CUBLASLT_EPILOGUE_BGRADB);
SAME(CUBLASLT_REDUCTION_SCHEME_NONE);
SAME(CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
#undef SAME

// An argument is passed alike: a pointer for a pointer, an enumeration for one, and
// otherwise the same type.
template <typename Ours, typename Theirs>
constexpr bool kPassedAlike = std::is_pointer_v<Ours> ? std::is_pointer_v<Theirs>
                              : std::is_enum_v<Ours>
                                  ? std::is_enum_v<Theirs> && sizeof(Ours) == sizeof(Theirs)
                                  : std::is_same_v<Ours, Theirs>;

template <typename Ours, typename Theirs>
struct Signatures;
template <typename R, typename... A, typename S, typename... B>
struct Signatures<R (*)(A...), S (*)(B...)> {
  static constexpr bool Alike() {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return kPassedAlike<R, S> && (kPassedAlike<A, B> && ...);
    }
    return false;
  }
};

#define ALIKE(ours, theirs) static_assert(Signatures<ours, decltype(&::theirs)>::Alike(), #ours)
ALIKE(CublasCreate, cublasCreate_v2);
ALIKE(CublasDestroy, cublasDestroy_v2);
ALIKE(CublasSetStream, cublasSetStream_v2);
ALIKE(CublasSetWorkspace, cublasSetWorkspace_v2);
ALIKE(CublasSetMathMode, cublasSetMathMode);
ALIKE(CublasGetVersion, cublasGetVersion_v2);
ALIKE(CublasGetStatusString, cublasGetStatusString);
ALIKE(CublasLtCreate, cublasLtCreate);
ALIKE(CublasLtDestroy, cublasLtDestroy);
ALIKE(CublasLtMatmulDescCreate, cublasLtMatmulDescCreate);
ALIKE(CublasLtMatmulDescDestroy, cublasLtMatmulDescDestroy);
ALIKE(CublasLtMatmulDescSetAttribute, cublasLtMatmulDescSetAttribute);
ALIKE(CublasLtMatrixLayoutCreate, cublasLtMatrixLayoutCreate);
ALIKE(CublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutDestroy);
ALIKE(CublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute);
ALIKE(CublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceCreate);
ALIKE(CublasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy);
ALIKE(CublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute);
ALIKE(CublasLtMatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic);
ALIKE(CublasLtMatmul, cublasLtMatmul);
#undef ALIKE

// The products have an overload each in C++, of another compute type: these casts choose.
using NvidiaGemm = ::cublasStatus_t (*)(::cublasHandle_t, ::cublasOperation_t, ::cublasOperation_t,
                                        int, int, int, const void*, const void*, ::cudaDataType,
                                        int, const void*, ::cudaDataType, int, const void*, void*,
                                        ::cudaDataType, int, ::cublasComputeType_t,
                                        ::cublasGemmAlgo_t);
using NvidiaGemmStridedBatched = ::cublasStatus_t (*)(::cublasHandle_t, ::cublasOperation_t,
                                                      ::cublasOperation_t, int, int, int,
                                                      const void*, const void*, ::cudaDataType, int,
                                                      long long, const void*, ::cudaDataType, int,
                                                      long long, const void*, void*, ::cudaDataType,
                                                      int, long long, int, ::cublasComputeType_t,
                                                      ::cublasGemmAlgo_t);
static_assert(Signatures<CublasGemm, decltype(static_cast<NvidiaGemm>(&::cublasGemmEx))>::Alike());
static_assert(Signatures<CublasGemmStridedBatched, decltype(static_cast<NvidiaGemmStridedBatched>(
                                                       &::cublasGemmStridedBatchedEx))>::Alike());

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));

TEST(CublasApiTest, IsNvidias) { EXPECT_EQ(CUBLAS_VER_MAJOR, CUDART_VERSION / 1000); }

}  // namespace
}  // namespace monsoon::cuda

#else

TEST(CublasApiTest, IsNvidias) { GTEST_SKIP() << "needs the headers of cuBLAS"; }

#endif
