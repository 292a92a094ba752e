// libcublas.so, as the backend loads it: a shared object of its own whose calls of the
// emulator the program answers (which is linked with -rdynamic).
#include <cublas_v2.h>

#include <cstdint>
#include <mutex>

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/products.h"
#include "tests/gpu/emulator/report.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
  bool has_workspace = false;
};

namespace monsoon::emulator {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;

// False, reported, for a handle of another device than the selected one.
void CheckDevice(const cublasContext& context, const char* call) {
  if (context.device != ThisThread().device) {
    Report("misuse", Text("%s with a handle of device %d while device %d is selected", call,
                          context.device, ThisThread().device));
  }
}

struct Types {
  cudaDataType_t a;
  cudaDataType_t b;
  cudaDataType_t c;
  cublasComputeType_t compute;
};

// False for what the emulator does not compute.
bool FindFactorType(const Types& types, FactorType* type) {
  if (types.a != types.b || types.c != CUDA_R_32F) {
    return false;
  }
  const bool plain = types.compute == CUBLAS_COMPUTE_32F;
  if (types.a == CUDA_R_32F && (plain || types.compute == CUBLAS_COMPUTE_32F_FAST_TF32)) {
    *type = plain ? FactorType::kFloat32 : FactorType::kTf32;
    return true;
  }
  *type = types.a == CUDA_R_16F ? FactorType::kFloat16 : FactorType::kBfloat16;
  return plain && (types.a == CUDA_R_16F || types.a == CUDA_R_16BF);
}

cublasStatus_t Multiply(cublasContext& context, const Types& types, Product product) {
  const std::lock_guard lock(TheMutex());
  if (DeviceProblem() != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  CheckDevice(context, "a product");
  if (!FindFactorType(types, &product.type)) {
    Report("misuse", Text("a product of types %d and %d to %d, computed as %d, is not emulated",
                          types.a, types.b, types.c, types.compute));
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

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace
}  // namespace monsoon::emulator

using namespace monsoon::emulator;

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
  CheckDevice(*handle, "cublasDestroy");
  CheckNobodyCaptures("cublasDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

// Also takes the handle its workspace away, as the real one does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const std::lock_guard lock(TheMutex());
  CheckDevice(*handle, "cublasSetStream");
  handle->stream = stream;
  handle->has_workspace = false;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  const std::lock_guard lock(TheMutex());
  if (Address(workspace) % kWorkspaceAlignment != 0 || Find(Address(workspace), bytes) == nullptr) {
    Report("misuse", "a cuBLAS workspace that is misaligned or not allocated: " +
                         Describe(Address(workspace)));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->has_workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t /*handle*/, cublasMath_t /*mode*/) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*handle*/, int* version) {
  *version = CUBLAS_VERSION;
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

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType_t a_type, int lda, const void* b,
                            cudaDataType_t b_type, int ldb, const void* beta, void* c,
                            cudaDataType_t c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t /*algorithm*/) {
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
  product.count = 1;
  return Multiply(*handle, {a_type, b_type, c_type, compute}, product);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
    int n, int k, const void* alpha, const void* a, cudaDataType_t a_type, int lda,
    long long stride_a, const void* b, cudaDataType_t b_type, int ldb, long long stride_b,
    const void* beta, void* c, cudaDataType_t c_type, int ldc, long long stride_c, int count,
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

}  // extern "C"
