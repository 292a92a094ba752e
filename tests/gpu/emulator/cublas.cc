// libcublas.so, as the backend loads it: a shared object of its own whose calls of the
// emulator the program answers (which is linked with -rdynamic).
#include <cstdint>
#include <mutex>

#include "tests/gpu/emulator/cublas_call.h"

struct cublasContext {
  int device;
  monsoon::cuda::CublasStream stream = nullptr;
  bool has_workspace = false;
};

namespace monsoon::cuda {
namespace {

using namespace emulator;

cublasStatus_t Multiply(cublasContext& context, const ProductTypes& types, Product product) {
  const std::lock_guard lock(TheMutex());
  if (DeviceProblem() != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  CheckDevice(context.device, "a product");
  if (!FindFactorType(types, &product.type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Stream* const stream = FindStream(context.stream, "a product");
  if (stream == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (stream->capturing && !context.has_workspace) {
    Report("capture", "a product without a workspace of its own");
  }
  if (!IsValid(product)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  EnqueueProduct(*stream, product);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const std::lock_guard lock(TheMutex());
  if (DeviceProblem() != cudaSuccess) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (CaptureProblem("cublasCreate") != cudaSuccess) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  CheckNobodyCaptures("cublasCreate");
  if (AllocationFails()) {
    return CUBLAS_STATUS_ALLOC_FAILED;
  }
  *handle = new cublasContext{ThisThread().device};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const std::lock_guard lock(TheMutex());
  CheckDevice(handle->device, "cublasDestroy");
  CheckNobodyCaptures("cublasDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

// Also takes the handle its workspace away, as the real one does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CublasStream stream) {
  const std::lock_guard lock(TheMutex());
  CheckDevice(handle->device, "cublasSetStream");
  handle->stream = stream;
  handle->has_workspace = false;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  const std::lock_guard lock(TheMutex());
  if (!IsWorkspace(Address(workspace), bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->has_workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t /*handle*/, cublasMath_t /*mode*/) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*handle*/, int* version) {
  *version = CUDART_VERSION / 1000 * 10000;  // the first of the major version
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cuBLAS status";
  }
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
    int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
    long long stride_a, const void* b, cudaDataType b_type, int ldb, long long stride_b,
    const void* beta, void* c, cudaDataType c_type, int ldc, long long stride_c, int count,
    cublasComputeType_t compute, cublasGemmAlgo_t /*algorithm*/) {
  Product product{};
  product.transpose_a = transpose_a != CUBLAS_OP_N;
  product.transpose_b = transpose_b != CUBLAS_OP_N;
  product.m = m;
  product.n = n;
  product.k = k;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.a = Address(a);
  product.b = Address(b);
  product.c = Address(c);
  product.lda = lda;
  product.ldb = ldb;
  product.ldc = ldc;
  product.stride_a = stride_a;
  product.stride_b = stride_b;
  product.stride_c = stride_c;
  product.count = count;
  return Multiply(*handle, {a_type, b_type, c_type, compute}, product);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type,
                                    lda, 0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute,
                                    algorithm);
}

}  // extern "C"

}  // namespace monsoon::cuda
