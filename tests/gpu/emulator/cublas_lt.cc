// libcublasLt.so, as the backend loads it: products that end with a bias. Like cublas.cc,
// the program answers its calls of the emulator. An algorithm remembers what it was
// advised for, and a product must be that.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "tests/gpu/emulator/cublas_call.h"
#include "tests/gpu/emulator/settings.h"

struct cublasLtContext {
  int device;
};

namespace monsoon::cuda {

struct CublasLtMatmulDesc {
  cublasComputeType_t compute;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // C's
};

struct CublasLtMatrixLayout {
  cudaDataType type;
  uint64_t rows;
  uint64_t columns;
  int64_t leading;
};

struct CublasLtMatmulPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;  // all
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

using namespace emulator;

constexpr uint64_t kMark = 0x5EED0F1A;
constexpr uint64_t kWorkspaceNeed = uint64_t{1} << 20;

// In place of what the real ones are.
struct Algorithm {
  uint64_t mark;
  uint64_t m, n, k;
  uint32_t form;  // transposed factors and epilogue
  uint16_t type;
  uint16_t alignments[4];
  uint16_t bias_alignment;  // of the address that the advice was asked for with
  uint64_t workspace;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

cublasStatus_t Misuse(const std::string& what) {
  Report("misuse", "cuBLASLt: " + what);
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <typename T>
cublasStatus_t Take(const void* value, size_t bytes, T* to) {
  if (bytes != sizeof(T)) {
    return Misuse(Text("an attribute of %zu bytes has %zu", bytes, sizeof(T)));
  }
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

struct Operands {
  const CublasLtMatmulDesc& operation;
  const CublasLtMatrixLayout& a;
  const CublasLtMatrixLayout& b;
  const CublasLtMatrixLayout& c;
  const CublasLtMatrixLayout& d;
};

Algorithm Describe(const Operands& of) {
  const bool transposed = of.operation.transpose_a != CUBLAS_OP_N;
  Algorithm algorithm = {};
  algorithm.mark = kMark;
  algorithm.m = of.d.rows;
  algorithm.n = of.d.columns;
  algorithm.k = transposed ? of.a.rows : of.a.columns;
  algorithm.form = static_cast<uint32_t>(of.operation.transpose_a) |
                   static_cast<uint32_t>(of.operation.transpose_b) << 1 |
                   of.operation.epilogue << 2;
  // Types are below 256.
  algorithm.type = static_cast<uint16_t>(static_cast<int>(of.a.type) |
                                         static_cast<int>(of.operation.compute) << 8);
  return algorithm;
}

// SUCCESS, or reported.
cublasStatus_t ToProduct(const Operands& of, Product* product) {
  if (of.operation.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    return Misuse(Text("epilogue %u is not emulated", of.operation.epilogue));
  }
  if (of.operation.bias == nullptr) {
    return Misuse("a bias without its address");
  }
  if (of.operation.bias_type != -1 && of.operation.bias_type != of.d.type) {
    return Misuse(
        Text("a bias of type %d for an output of type %d", of.operation.bias_type, of.d.type));
  }
  if (!FindFactorType({of.a.type, of.b.type, of.d.type, of.operation.compute}, &product->type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const Algorithm shape = Describe(of);
  product->transpose_a = of.operation.transpose_a != CUBLAS_OP_N;
  product->transpose_b = of.operation.transpose_b != CUBLAS_OP_N;
  const bool agree = of.c.rows == of.d.rows && of.c.columns == of.d.columns &&
                     of.c.type == of.d.type && of.c.leading == of.d.leading &&
                     (product->transpose_a ? of.a.columns : of.a.rows) == shape.m &&
                     (product->transpose_b ? of.b.columns : of.b.rows) == shape.k &&
                     (product->transpose_b ? of.b.rows : of.b.columns) == shape.n;
  if (!agree) {
    return Misuse(Text(
        "layouts %llu x %llu and %llu x %llu do not make %llu x %llu",
        static_cast<unsigned long long>(of.a.rows), static_cast<unsigned long long>(of.a.columns),
        static_cast<unsigned long long>(of.b.rows), static_cast<unsigned long long>(of.b.columns),
        static_cast<unsigned long long>(of.d.rows), static_cast<unsigned long long>(of.d.columns)));
  }
  product->m = static_cast<int>(shape.m);
  product->n = static_cast<int>(shape.n);
  product->k = static_cast<int>(shape.k);
  product->lda = static_cast<int>(of.a.leading);
  product->ldb = static_cast<int>(of.b.leading);
  product->ldc = static_cast<int>(of.d.leading);
  return IsValid(*product) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool IsAligned(const void* pointer, uint16_t to) { return Address(pointer) % to == 0; }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const std::lock_guard lock(TheMutex());
  if (DeviceProblem() != cudaSuccess || CaptureProblem("cublasLtCreate") != cudaSuccess ||
      TheSettings().cublas_lt == CublasLt::kNoHandle) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  CheckNobodyCaptures("cublasLtCreate");
  *handle = new cublasLtContext{ThisThread().device};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::lock_guard lock(TheMutex());
  CheckDevice(handle->device, "cublasLtDestroy");
  CheckNobodyCaptures("cublasLtDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType scale) {
  if (scale != CUDA_R_32F) {
    return Misuse(Text("a scale of type %d is not emulated", scale));
  }
  *operation = new CublasLtMatmulDesc{compute};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Take(value, bytes, &operation->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Take(value, bytes, &operation->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Take(value, bytes, &operation->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Take(value, bytes, &operation->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Take(value, bytes, &operation->bias_type);
    default:
      return Misuse(Text("attribute %d of a product is not emulated", attribute));
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new CublasLtMatrixLayout{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t /*layout*/,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* /*value*/, size_t /*bytes*/) {
  return Misuse(Text("attribute %d of a layout is not emulated", attribute));
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new CublasLtMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Take(value, bytes, &preference->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Take(value, bytes, &preference->reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Take(value, bytes,
                  &preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    default:
      return Misuse(Text("attribute %d of a search is not emulated", attribute));
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  const std::lock_guard lock(TheMutex());
  *returned = 0;
  CheckDevice(handle->device, "a search for an algorithm");
  if (ThisThread().capturing != nullptr) {
    Report("capture", "a search for an algorithm of cuBLASLt");
  }
  Product product{};
  const Operands of{*operation, *a, *b, *c, *d};
  if (const cublasStatus_t status = ToProduct(of, &product); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if ((preference->reductions &
       (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0) {
    return Misuse("partial sums in place or of the output's type, which the backend rules out");
  }
  if (requested < 1 || TheSettings().cublas_lt == CublasLt::kNoAlgorithm) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Algorithm algorithm = Describe(of);
  std::copy(preference->alignments, preference->alignments + 4, algorithm.alignments);
  const uint64_t bias = Address(operation->bias) | kWorkspaceAlignment;
  algorithm.bias_alignment = static_cast<uint16_t>(bias & (~bias + 1));
  algorithm.workspace = std::min(kWorkspaceNeed, preference->workspace);
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              CublasStream stream_handle) {
  const std::lock_guard lock(TheMutex());
  if (DeviceProblem() != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  CheckDevice(handle->device, "a product");
  if (TheSettings().cublas_lt == CublasLt::kRefuses) {
    Return(cudaErrorInvalidValue);  // as a launch that it tried leaves it
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  Stream* const stream = FindStream(stream_handle, "a product");
  if (stream == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Product product{};
  const Operands of{*operation, *a_layout, *b_layout, *c_layout, *d_layout};
  if (const cublasStatus_t status = ToProduct(of, &product); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.a = Address(a);
  product.b = Address(b);
  product.c = Address(d);
  product.bias = Address(operation->bias);
  Algorithm advised;
  std::memcpy(&advised, algorithm, sizeof(advised));
  const Algorithm is = Describe(of);
  if (advised.mark != kMark || advised.m != is.m || advised.n != is.n || advised.k != is.k ||
      advised.form != is.form || advised.type != is.type) {
    return Misuse(
        Text("an algorithm that was advised for %llu x %llu x %llu computes another "
             "product",
             static_cast<unsigned long long>(advised.m), static_cast<unsigned long long>(advised.n),
             static_cast<unsigned long long>(advised.k)));
  }
  if (!IsAligned(a, advised.alignments[0]) || !IsAligned(b, advised.alignments[1]) ||
      !IsAligned(c, advised.alignments[2]) || !IsAligned(d, advised.alignments[3]) ||
      !IsAligned(operation->bias, advised.bias_alignment)) {
    return Misuse("an algorithm was advised for addresses of a larger alignment");
  }
  if (advised.workspace > bytes || !IsWorkspace(Address(workspace), bytes)) {
    return Misuse(Text("a workspace of %zu bytes will not do", bytes));
  }
  if (product.beta != 0 && c != d) {
    return Misuse("C that is not D is not emulated");
  }
  EnqueueProduct(*stream, product);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

}  // namespace monsoon::cuda
