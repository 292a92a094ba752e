#include "worker/backend/cuda/kernels/column_sum_kernels.h"

#include <algorithm>

#include "worker/backend/cuda/kernels/column_sums.h"
#include "worker/backend/cuda/kernels/launch.h"
#include "worker/backend/cuda/kernels/launch_limits.h"

namespace monsoon::cuda {
namespace {

// Blocks that keep the largest GPUs' multiprocessors (132 on an H100) busy: four each.
constexpr uint64_t kSumBlocks = 528;
// A thread of a slice adds at least so many values; for fewer, a second launch costs
// more than the first one saves.
constexpr uint64_t kSliceValues = 16;

// Of `count` values to a column, with `threads` threads to a column of a block.
SumSlices Slice(uint64_t count, uint64_t threads, uint64_t blocks) {
  const uint64_t most = std::max<uint64_t>(count / (threads * kSliceValues), 1);
  const uint64_t slices = std::clamp<uint64_t>(kSumBlocks / blocks, 1, most);
  return {static_cast<uint32_t>(slices), static_cast<uint32_t>((count + slices - 1) / slices)};
}

SumSlices ColumnSlices(uint64_t rows, uint64_t columns) {
  const uint64_t width = BlockColumns(columns);
  return Slice(rows, kThreads / width, (columns + width - 1) / width);
}

SumSlices ChannelSlices(const ImageShape& shape, uint64_t examples) {
  return Slice(examples * shape.out_area(), kThreads, shape.out_channels);
}

uint64_t Bytes(uint64_t slices, uint64_t columns) {
  return slices == 1 ? 0 : slices * columns * sizeof(double);
}

void SumSlicesUp(Stream& stream, const SumSlices& slices, uint32_t columns, const double* partial,
                 float* sums, bool accumulate) {
  ReduceColumns(stream, "sum of slices", columns, 1,
                SlicedColumnSums<double>{partial, slices.slices, columns, slices.slices,
                                         SumTarget{nullptr, sums, accumulate}});
}

}  // namespace

uint64_t ColumnSumBytes(uint64_t rows, uint64_t columns) {
  return Bytes(ColumnSlices(rows, columns).slices, columns);
}

void SumColumns(Stream& stream, const ColumnSums& s) {
  const SumSlices slices = ColumnSlices(s.rows, s.columns);
  double* const partial = slices.slices == 1 ? nullptr : static_cast<double*>(s.scratch);
  ReduceColumns(stream, "column sums", s.columns, slices.slices,
                SlicedColumnSums<float>{s.matrix, s.rows, s.columns, slices.length,
                                        SumTarget{partial, s.sums, s.accumulate}});
  if (partial != nullptr) {
    SumSlicesUp(stream, slices, s.columns, partial, s.sums, s.accumulate);
  }
}

uint64_t ChannelSumBytes(const ImageShape& shape, uint64_t examples) {
  return Bytes(ChannelSlices(shape, examples).slices, shape.out_channels);
}

void SumChannels(Stream& stream, const ChannelSums& s) {
  const SumSlices slices = ChannelSlices(s.shape, s.examples);
  double* const partial = slices.slices == 1 ? nullptr : static_cast<double*>(s.scratch);
  ReduceRows(stream, "bias gradient", uint64_t{slices.slices} * s.shape.out_channels,
             SlicedChannelSums(s.shape, s.examples, slices.length, s.out_diff,
                               SumTarget{partial, s.sums, false}));
  if (partial != nullptr) {
    SumSlicesUp(stream, slices, s.shape.out_channels, partial, s.sums, false);
  }
}

}  // namespace monsoon::cuda
