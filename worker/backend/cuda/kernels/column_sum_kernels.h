// Sums over rows and over images, in the form of elementwise_kernels.h; how they are
// added up stands in column_sums.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// sums[c] = sum over column c of a [rows, columns] matrix, or added to it.
struct ColumnSums {
  const float* matrix;
  uint32_t rows;
  uint32_t columns;
  float* sums;
  void* scratch;  // of ColumnSumBytes, at a multiple of 8
  bool accumulate = false;
};
void SumColumns(Stream& stream, const ColumnSums& sums);
// 0 where one stage does. Does not fall with the rows.
uint64_t ColumnSumBytes(uint64_t rows, uint64_t columns);

// sums[k] = sum over samples and positions of out_diff[n, k, p].
struct ChannelSums {
  ImageShape shape;
  uint32_t examples;
  const float* out_diff;
  float* sums;
  void* scratch;  // of ChannelSumBytes, at a multiple of 8
};
void SumChannels(Stream& stream, const ChannelSums& sums);
// 0 where one stage does. Does not fall with the examples.
uint64_t ChannelSumBytes(const ImageShape& shape, uint64_t examples);

}  // namespace monsoon::cuda
