#include "worker/backend/cuda/kernels/gemm.h"

#include "worker/backend/cuda/kernels/cublas_library.h"
#include "worker/backend/cuda/kernels/cublas_lt_products.h"
#include "worker/backend/cuda/kernels/cublas_types.h"
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/runtime/error_log.h"

namespace monsoon::cuda {
namespace {

bool Check(cublasStatus_t status, const char* what, ErrorLog& errors) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return true;
  }
  const ErrorLog::Kind kind =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorLog::Kind::kOutOfMemory : ErrorLog::Kind::kDevice;
  errors.Add(kind, what,
             "cuBLAS status " + std::to_string(status) + " (" +
                 CublasLibrary::Get().status_string(status) + ")");
  return false;
}

}  // namespace

Gemm::Gemm(Stream& stream, Precision precision, bool fuse_bias)
    : stream_(stream),
      precision_(precision),
      fuse_bias_(fuse_bias),
      workspace_(Buffer::Place::kDevice, kWorkspaceBytes, stream.errors()) {
  const CublasLibrary& cublas = CublasLibrary::Get();
  ErrorLog& errors = stream.errors();
  if (!cublas.problem.empty()) {
    errors.Add(ErrorLog::Kind::kNotAvailable, "cuBLAS cannot be loaded", cublas.problem);
  }
  if (!errors.ok()) {
    return;
  }
  if (fuse_bias_) {
    lt_ = std::make_shared<CublasLtProducts>(stream, precision, workspace_);
  }
  const std::lock_guard<std::mutex> no_capture(CaptureMutex());
  if (!Check(cublas.create(&handle_), "cublasCreate", errors)) {
    handle_ = nullptr;
    return;
  }
  // Setting the stream gives the handle its default workspace back: it comes
  // first.
  Check(cublas.set_stream(handle_, stream.handle()), "cublasSetStream", errors);
  Check(cublas.set_workspace(handle_, workspace_.as<void>(), workspace_.bytes()),
        "cublasSetWorkspace", errors);
  // Partial sums of half products stay float32 as well.
  Check(cublas.set_math_mode(
            handle_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                               CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
        "cublasSetMathMode", errors);
}

Gemm::~Gemm() {
  if (handle_ != nullptr) {
    const std::lock_guard<std::mutex> no_capture(CaptureMutex());
    CublasLibrary::Get().destroy(handle_);
  }
}

void Gemm::Multiply(const RowMajorProduct& product) {
  if (!stream_.errors().ok()) {
    return;
  }
  const ColumnMajorProduct call = ToColumnMajor(product);
  const float alpha = 1.0f;
  const float beta = product.accumulate ? 1.0f : 0.0f;
  const cudaDataType_t type = FactorType(precision_);
  const cublasComputeType_t compute = ComputeType(precision_);
  const CublasLibrary& cublas = CublasLibrary::Get();
  if (call.batch == 1) {
    Check(cublas.gemm(handle_, Operation(call.transpose_a), Operation(call.transpose_b), call.m,
                      call.n, call.k, &alpha, call.a, type, call.lda, call.b, type, call.ldb, &beta,
                      call.c, CUDA_R_32F, call.ldc, compute, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx", stream_.errors());
    return;
  }
  Check(cublas.gemm_strided_batched(handle_, Operation(call.transpose_a),
                                    Operation(call.transpose_b), call.m, call.n, call.k, &alpha,
                                    call.a, type, call.lda, call.stride_a, call.b, type, call.ldb,
                                    call.stride_b, &beta, call.c, CUDA_R_32F, call.ldc,
                                    call.stride_c, call.batch, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx", stream_.errors());
}

void Gemm::MultiplyAndAddBias(const RowMajorProduct& product, const float* bias) {
  if (!stream_.errors().ok() || (lt_ != nullptr && lt_->Multiply(product, bias))) {
    return;
  }
  Multiply(product);
  AddBiasToRows(stream_, AddBias{bias, static_cast<uint32_t>(product.n), product.c},
                product.m * product.n);
}

std::string Gemm::fusion_failure() const { return lt_ == nullptr ? "" : lt_->problem(); }

std::string Gemm::Version() const {
  int version = 0;
  if (handle_ == nullptr ||
      CublasLibrary::Get().get_version(handle_, &version) != CUBLAS_STATUS_SUCCESS) {
    return "cuBLAS";
  }
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100) +
         (lt_ != nullptr && lt_->works() ? " and cuBLASLt" : "");
}

}  // namespace monsoon::cuda
