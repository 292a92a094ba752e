// Products that end with a bias in the same kernel, by cuBLASLt: what gemm.cc tries
// first. What stands in their way is no error; the caller has another way.
//
// A shape's plan (descriptors and the algorithm that the library advises) is made when the
// shape first comes and kept: later products allocate nothing and can be captured. Shapes
// are not forgotten; one holds less than a kilobyte, and a network has one for each dense
// layer and batch size.
//
// The same product on the same device gives the same bits. The advice depends on nothing
// but the shape, and an algorithm that splits k must put its partial sums, in float32,
// into the workspace and add them in a step of their own (COMPUTE_TYPE). Sums in place
// and partial sums of the output's type are not allowed.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "worker/backend/cuda/kernels/cublas_api.h"
#include "worker/backend/cuda/kernels/gemm_call.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

class CublasLtProducts {
 public:
  // Both must outlive it; the workspace is used on the stream alone. The stream's device
  // is selected.
  CublasLtProducts(Stream& stream, Precision precision, const Buffer& workspace);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  // Gemm::MultiplyAndAddBias. False: nothing is enqueued, here or by a later call of the
  // same shape. An error of a shape that went before is the stream's.
  bool Multiply(const RowMajorProduct& product, const float* bias);

  // The first reason of a false, or empty.
  const std::string& problem() const { return problem_; }
  bool works() const { return handle_ != nullptr; }

 private:
  // m, n, k, transposed factors, and the alignments of a, b, c and the bias.
  using Shape = std::array<uint64_t, 8>;
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    cublasLtMatmulAlgo_t algorithm = {};
    bool usable = false;
    bool has_run = false;
  };

  bool Make(const ColumnMajorProduct& call, const Shape& shape, const float* bias, Plan& plan);
  bool Advise(const Shape& shape, Plan& plan);
  // Whether it is; else notes why not.
  bool IsSuccess(cublasStatus_t status, const std::string& what);

  Stream& stream_;
  Precision precision_;
  const Buffer& workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, Plan> plans_;
  std::string problem_;
};

}  // namespace monsoon::cuda
