#include "worker/backend/cuda/kernels/cublas_lt_products.h"

#include <cuda_runtime_api.h>

#include <mutex>

#include "worker/backend/cuda/kernels/cublas_library.h"
#include "worker/backend/cuda/kernels/cublas_types.h"
#include "worker/backend/cuda/runtime/error_log.h"

namespace monsoon::cuda {
namespace {

// What the library may count on: bytes, a power of two. 256 is what it assumes unasked.
uint64_t Alignment(const void* pointer) {
  constexpr uint64_t kEnough = 256;
  const uint64_t address = reinterpret_cast<uint64_t>(pointer) | kEnough;
  return address & (~address + 1);
}

std::string Describe(const cublasStatus_t status) {
  return "cuBLAS status " + std::to_string(status) + " (" +
         CublasLibrary::Get().status_string(status) + ")";
}

// One attribute of a descriptor, by the library's function for its kind.
template <typename F, typename D, typename A, typename T>
cublasStatus_t Set(F function, D descriptor, A attribute, const T& value) {
  return function(descriptor, attribute, &value, sizeof(value));
}

template <typename F, typename D>
void Destroy(F function, D descriptor) {
  if (descriptor != nullptr) {
    function(descriptor);
  }
}

}  // namespace

CublasLtProducts::CublasLtProducts(Stream& stream, Precision precision, const Buffer& workspace)
    : stream_(stream), precision_(precision), workspace_(workspace) {
  const CublasLtLibrary& lt = CublasLtLibrary::Get();
  if (!lt.problem.empty()) {
    problem_ = "cuBLASLt cannot be loaded: " + lt.problem;
    return;
  }
  const std::lock_guard<std::mutex> no_capture(CaptureMutex());
  if (!IsSuccess(lt.create(&handle_), "cublasLtCreate")) {
    handle_ = nullptr;
  }
}

CublasLtProducts::~CublasLtProducts() {
  if (handle_ == nullptr) {
    return;
  }
  const CublasLtLibrary& lt = CublasLtLibrary::Get();
  for (const auto& [shape, plan] : plans_) {
    Destroy(lt.desc_destroy, plan.operation);
    for (const cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
      Destroy(lt.layout_destroy, layout);
    }
  }
  const std::lock_guard<std::mutex> no_capture(CaptureMutex());
  lt.destroy(handle_);
}

bool CublasLtProducts::IsSuccess(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS && problem_.empty()) {
    problem_ = what + ": " + Describe(status);
  }
  return status == CUBLAS_STATUS_SUCCESS;
}

bool CublasLtProducts::Multiply(const RowMajorProduct& product, const float* bias) {
  if (handle_ == nullptr) {
    return false;
  }
  const CublasLtLibrary& lt = CublasLtLibrary::Get();
  const ColumnMajorProduct call = ToColumnMajor(product);
  const Shape shape = {
      product.m,         product.n,
      product.k,         uint64_t{call.transpose_a} | uint64_t{call.transpose_b} << 1,
      Alignment(call.a), Alignment(call.b),
      Alignment(call.c), Alignment(bias)};
  auto found = plans_.find(shape);
  if (found == plans_.end()) {
    found = plans_.emplace(shape, Plan()).first;
    found->second.usable = Make(call, shape, bias, found->second);
  }
  Plan& plan = found->second;
  if (!plan.usable) {
    return false;
  }
  const float alpha = 1.0f;
  const float beta = 0.0f;
  cublasStatus_t status = Set(lt.desc_set, plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt.matmul(handle_, plan.operation, &alpha, call.a, plan.a, call.b, plan.b, &beta,
                       call.c, plan.c, call.c, plan.c, &plan.algorithm, workspace_.as<void>(),
                       workspace_.bytes(), stream_.handle());
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    plan.has_run = true;
    return true;
  }
  if (plan.has_run) {
    stream_.errors().Add(ErrorLog::Kind::kDevice, "cublasLtMatmul", Describe(status));
    return true;
  }
  plan.usable = false;
  IsSuccess(status, "cublasLtMatmul");
  // The next launch would take it for its own. An error of the device comes again.
  cudaGetLastError();
  return false;
}

bool CublasLtProducts::Make(const ColumnMajorProduct& call, const Shape& shape, const float* bias,
                            Plan& plan) {
  const CublasLtLibrary& lt = CublasLtLibrary::Get();
  const cudaDataType_t type = FactorType(precision_);
  const auto make_layout = [&](cublasLtMatrixLayout_t* layout, cudaDataType_t of, bool transposed,
                               int rows, int columns, int leading) {
    return IsSuccess(
        lt.layout_create(layout, of, static_cast<uint64_t>(transposed ? columns : rows),
                         static_cast<uint64_t>(transposed ? rows : columns), leading),
        "cublasLtMatrixLayoutCreate");
  };
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return IsSuccess(Set(lt.desc_set, plan.operation, attribute, value),
                     "cublasLtMatmulDescSetAttribute");
  };
  return IsSuccess(lt.desc_create(&plan.operation, ComputeType(precision_), CUDA_R_32F),
                   "cublasLtMatmulDescCreate") &&
         set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{Operation(call.transpose_a)}) &&
         set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{Operation(call.transpose_b)}) &&
         set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS}) &&
         set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F}) &&
         // Each product has its own; the advice looks at the alignment of this one.
         set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias) &&
         make_layout(&plan.a, type, call.transpose_a, call.m, call.k, call.lda) &&
         make_layout(&plan.b, type, call.transpose_b, call.k, call.n, call.ldb) &&
         make_layout(&plan.c, CUDA_R_32F, false, call.m, call.n, call.ldc) && Advise(shape, plan);
}

bool CublasLtProducts::Advise(const Shape& shape, Plan& plan) {
  const CublasLtLibrary& lt = CublasLtLibrary::Get();
  cublasLtMatmulPreference_t preference = nullptr;
  if (!IsSuccess(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate")) {
    return false;
  }
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return IsSuccess(Set(lt.preference_set, preference, attribute, value),
                     "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto alignment = [&](size_t at) { return static_cast<uint32_t>(shape[at]); };
  bool good = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_.bytes()}) &&
              set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                  uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) &&
              set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(4)) &&
              set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(5)) &&
              set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(6)) &&
              set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(6));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (good) {
    status = lt.heuristic(handle_, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1,
                          &result, &found);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : result.state;
    }
    good = IsSuccess(status, "cuBLASLt advises nothing for a product of " +
                                 std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                                 " x " + std::to_string(shape[2]) + " with a bias");
  }
  plan.algorithm = result.algo;
  lt.preference_destroy(preference);
  return good;
}

}  // namespace monsoon::cuda
