// y = W x + b of rows x, as matrix products, for the layers that have one. A factor is what
// AsFactor makes of values.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {

struct Projection {
  TensorSlot weight;  // [units, inputs]
  TensorSlot bias;    // or none
  uint64_t inputs;
  uint64_t units;
  Precision precision;

  void Forward(const Pass& pass, uint64_t rows, const void* in, float* out) const {
    // out[rows, units] = in[rows, inputs] W[units, inputs]^T
    RowMajorProduct product;
    product.transpose_b = true;
    product.m = rows;
    product.n = units;
    product.k = inputs;
    product.a = in;
    product.b = WeightFactor(pass, precision, weight);
    product.c = out;
    if (bias.size == 0) {
      pass.gemm.Multiply(product);
    } else {
      pass.gemm.MultiplyAndAddBias(product, pass.parameters + bias.offset);
    }
  }

  void WeightGradient(const Pass& pass, uint64_t rows, const void* in, const void* diff) const {
    // dW[units, inputs] = diff[rows, units]^T in[rows, inputs]
    RowMajorProduct product;
    product.transpose_a = true;
    product.m = units;
    product.n = inputs;
    product.k = rows;
    product.a = diff;
    product.b = in;
    product.c = pass.gradient + weight.offset;
    product.accumulate = weight.shared;
    pass.gemm.Multiply(product);
  }

  // Of float32 sums, also where products take halves; `scratch` of SumBytes.
  void BiasGradient(const Pass& pass, uint64_t rows, const float* diff, void* scratch) const {
    if (bias.size != 0) {
      SumColumns(pass.stream, ColumnSums{diff, Narrow(rows), Narrow(units),
                                         pass.gradient + bias.offset, scratch, bias.shared});
    }
  }
  uint64_t SumBytes(uint64_t rows) const {
    return bias.size == 0 ? 0 : ColumnSumBytes(rows, units);
  }

  void InputGradient(const Pass& pass, uint64_t rows, const void* diff, float* in_diff) const {
    // in_diff[rows, inputs] = diff[rows, units] W[units, inputs]
    RowMajorProduct product;
    product.m = rows;
    product.n = inputs;
    product.k = units;
    product.a = diff;
    product.b = WeightFactor(pass, precision, weight);
    product.c = in_diff;
    pass.gemm.Multiply(product);
  }
};

}  // namespace monsoon::cuda
