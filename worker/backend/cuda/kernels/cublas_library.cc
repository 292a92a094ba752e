#include "worker/backend/cuda/kernels/cublas_library.h"

#include <dlfcn.h>

#include <type_traits>

namespace monsoon::cuda {
namespace {

#define MONSOON_TEXT_OF(x) #x
#define MONSOON_TEXT(x) MONSOON_TEXT_OF(x)

// By the usual search (beside the program, LD_LIBRARY_PATH, ld.so.conf), else
// where the toolkit of the build was.
void* Open(std::string* problem) {
  constexpr char kName[] = "libcublas.so." MONSOON_TEXT(CUBLAS_VER_MAJOR);
  for (const std::string& path :
       {std::string(kName), MONSOON_CUDA_LIBRARY "/" + std::string(kName)}) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      return handle;
    }
    *problem += std::string(problem->empty() ? "" : "; ") + dlerror();
  }
  return nullptr;
}

CublasLibrary Load() {
  CublasLibrary library;
  std::string problem;
  void* handle = Open(&problem);
  if (handle == nullptr) {
    library.problem = problem;
    return library;
  }
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr && library.problem.empty()) {
      library.problem = std::string("it has no ") + name;
    }
  };
  find("cublasCreate_v2", &library.create);
  find("cublasDestroy_v2", &library.destroy);
  find("cublasSetStream_v2", &library.set_stream);
  find("cublasSetWorkspace_v2", &library.set_workspace);
  find("cublasSetMathMode", &library.set_math_mode);
  find("cublasGemmEx", &library.gemm);
  find("cublasGemmStridedBatchedEx", &library.gemm_batch);
  find("cublasGetVersion_v2", &library.get_version);
  find("cublasGetStatusString", &library.status_string);
  return library;
}

}  // namespace

const CublasLibrary& CublasLibrary::Get() {
  static const CublasLibrary library = Load();
  return library;
}

}  // namespace monsoon::cuda
