// Matrix products by cuBLAS, on one stream. cuBLAS is loaded when the first
// Gemm is made, not linked: it would add 0.1 to 1.2 s to the start of every
// worker, also on machines without a GPU.
//
// The same product on the same device gives the same bits: one stream, a
// workspace of our own, no split that depends on load.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "worker/backend/cuda/kernels/gemm_call.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/runtime/runtime.h"

struct cublasContext;

namespace monsoon::cuda {

class Gemm {
 public:
  // What cuBLAS may use besides the matrices: NVIDIA's advice for Hopper.
  static constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

  // Notes an error where cuBLAS cannot be loaded or refuses; `stream` must
  // outlive the object.
  Gemm(Stream& stream, Precision precision);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // a and b are float, or uint16_t halves where the precision says so; sums and
  // c are float.
  void Multiply(const RowMajorProduct& product);

  // "cuBLAS 13.1.0".
  std::string Version() const;

 private:
  Stream& stream_;
  Precision precision_;
  Buffer workspace_;
  cublasContext* handle_ = nullptr;
};

}  // namespace monsoon::cuda
