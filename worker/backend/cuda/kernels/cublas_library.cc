#include "worker/backend/cuda/kernels/cublas_library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <type_traits>

namespace monsoon::cuda {
namespace {

// A library of the toolkit, of the build's major version.
class Library {
 public:
  // `name`: "libcublas". By the usual search (beside the program, LD_LIBRARY_PATH,
  // ld.so.conf), else where the toolkit of the build was. Notes in `problem`.
  Library(const std::string& name, std::string* problem) : problem_(problem) {
    const std::string file = name + ".so." + std::to_string(CUDART_VERSION / 1000);
    std::string why;
    for (const std::string& path : {file, MONSOON_CUDA_LIBRARY "/" + file}) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        return;
      }
      const char* const error = dlerror();
      why += std::string(why.empty() ? "" : "; ") + (error == nullptr ? "unknown" : error);
    }
    *problem_ = why;
  }

  // False, and `function` is null, where the library has no such function.
  template <typename F>
  bool Find(const char* name, F* function) const {
    static_assert(std::is_pointer_v<F>);
    *function = handle_ == nullptr ? nullptr : reinterpret_cast<F>(dlsym(handle_, name));
    return *function != nullptr;
  }

  template <typename F>
  void Demand(const char* name, F* function) const {
    if (!Find(name, function) && problem_->empty()) {
      *problem_ = "it has no ";
      *problem_ += name;
    }
  }

 private:
  void* handle_ = nullptr;
  std::string* problem_;
};

CublasLibrary Load() {
  CublasLibrary cublas;
  const Library library("libcublas", &cublas.problem);
  library.Demand("cublasCreate_v2", &cublas.create);
  library.Demand("cublasDestroy_v2", &cublas.destroy);
  library.Demand("cublasSetStream_v2", &cublas.set_stream);
  library.Demand("cublasSetWorkspace_v2", &cublas.set_workspace);
  library.Demand("cublasSetMathMode", &cublas.set_math_mode);
  library.Demand("cublasGemmEx", &cublas.gemm);
  library.Demand("cublasGetVersion_v2", &cublas.get_version);
  library.Demand("cublasGetStatusString", &cublas.status_string);
  library.Demand("cublasGemmStridedBatchedEx", &cublas.gemm_strided_batched);
  return cublas;
}

CublasLtLibrary LoadLt() {
  CublasLtLibrary lt;
  const Library library("libcublasLt", &lt.problem);
  library.Demand("cublasLtCreate", &lt.create);
  library.Demand("cublasLtDestroy", &lt.destroy);
  library.Demand("cublasLtMatmulDescCreate", &lt.desc_create);
  library.Demand("cublasLtMatmulDescDestroy", &lt.desc_destroy);
  library.Demand("cublasLtMatmulDescSetAttribute", &lt.desc_set);
  library.Demand("cublasLtMatrixLayoutCreate", &lt.layout_create);
  library.Demand("cublasLtMatrixLayoutDestroy", &lt.layout_destroy);
  library.Demand("cublasLtMatrixLayoutSetAttribute", &lt.layout_set);
  library.Demand("cublasLtMatmulPreferenceCreate", &lt.preference_create);
  library.Demand("cublasLtMatmulPreferenceDestroy", &lt.preference_destroy);
  library.Demand("cublasLtMatmulPreferenceSetAttribute", &lt.preference_set);
  library.Demand("cublasLtMatmulAlgoGetHeuristic", &lt.heuristic);
  library.Demand("cublasLtMatmul", &lt.matmul);
  return lt;
}

}  // namespace

const CublasLibrary& CublasLibrary::Get() {
  static const CublasLibrary library = Load();
  return library;
}

const CublasLtLibrary& CublasLtLibrary::Get() {
  static const CublasLtLibrary library = LoadLt();
  return library;
}

}  // namespace monsoon::cuda
