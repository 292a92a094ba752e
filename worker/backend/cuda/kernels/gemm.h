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
#include <memory>
#include <string>

#include "worker/backend/cuda/kernels/gemm_call.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/runtime/runtime.h"

struct cublasContext;

namespace monsoon::cuda {

class CublasLtProducts;

class Gemm {
 public:
  // What cuBLAS may use besides the matrices: NVIDIA's advice for Hopper.
  static constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

  // Notes an error where cuBLAS cannot be loaded or refuses; `stream` must
  // outlive the object.
  // `fuse_bias`: by cuBLASLt, where it can be had.
  Gemm(Stream& stream, Precision precision, bool fuse_bias = true);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // a and b are float, or uint16_t halves where the precision says so; sums and
  // c are float.
  void Multiply(const RowMajorProduct& product);

  // Multiply, and then c[i][j] += bias[j]: `bias` has n floats. No batch, nothing
  // accumulated. In one kernel by cuBLASLt: the row-major c is asked for as its
  // transpose, column-major, and what cuBLASLt adds runs along the rows of that, the
  // columns of c. (A bias along the rows of c, as a convolution by sample has it, would
  // run along the columns there, which cuBLASLt does not do.) Where it has no way, a
  // product by cuBLAS and a kernel.
  void MultiplyAndAddBias(const RowMajorProduct& product, const float* bias);

  // Why biases are added by kernels though it was not asked for; else empty.
  std::string fusion_failure() const;

  // "cuBLAS 13.1.0", and "and cuBLASLt" where that is used.
  std::string Version() const;

 private:
  Stream& stream_;
  Precision precision_;
  bool fuse_bias_;
  Buffer workspace_;
  cublasContext* handle_ = nullptr;
  std::shared_ptr<CublasLtProducts> lt_;  // of gemm.cc, where it was asked for
};

}  // namespace monsoon::cuda
