// Sums over the rows of a matrix and over the images of a batch: bias gradients and
// the sums of partial weight gradients. In two stages where one block for each column
// would leave most of a GPU idle: slices of the rows first, then their sums.
//
// Fixed trees, so the same shape gives the same bits. A thread adds four values as
// floats and such fours as doubles, and everything after it is double: the error of a
// sum is that of two roundings of its addends, for any number of them.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

struct SumSlices {
  uint32_t slices;
  uint32_t length;  // of each but the last
};

// What a slice's sum is written to: the answer where it is the only one, else the
// scratch [slices, columns] that the second stage sums.
struct SumTarget {
  double* partial;  // null: the only slice
  float* sums;
  bool accumulate;  // onto what is there

  MONSOON_PORTABLE void Store(uint32_t column, uint32_t at, double sum) const {
    if (partial != nullptr) {
      partial[at] = sum;
    } else {
      sums[column] = static_cast<float>(accumulate ? sums[column] + sum : sum);
    }
  }
};

// Column c of rows [slice * length, ...) of a [rows, columns] matrix. See ReduceColumns
// in launch.h for the form. T: float or, for the second stage, double.
template <typename T>
struct SlicedColumnSums {
  using Value = double;
  const T* matrix;
  uint32_t rows;
  uint32_t columns;
  uint32_t length;
  SumTarget target;
  MONSOON_PORTABLE double Partial(uint32_t column, uint32_t slice, uint32_t lane,
                                  uint32_t lanes) const {
    const uint32_t begin = slice * length;
    const uint32_t end = begin + length < rows ? begin + length : rows;
    const uint32_t step = lanes * columns;
    uint32_t r = begin + lane;
    uint32_t at = r * columns + column;
    double sum = 0;
    for (; r + 3 * lanes < end; r += 4 * lanes, at += 4 * step) {
      sum += static_cast<double>((matrix[at] + matrix[at + step]) +
                                 (matrix[at + 2 * step] + matrix[at + 3 * step]));
    }
    for (; r < end; r += lanes, at += step) {
      sum += static_cast<double>(matrix[at]);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t column, uint32_t slice, double sum) const {
    target.Store(column, slice * columns + column, sum);
  }
};

// Row slice * channels + k: positions [slice * length, ...) of channel k in out_diff
// [n, k, p], numbered over samples and p. See ReduceRows in launch.h for the form.
class SlicedChannelSums {
 public:
  using Value = double;
  SlicedChannelSums(const ImageShape& shape, uint32_t examples, uint32_t length,
                    const float* out_diff, const SumTarget& target)
      : channels_(shape.out_channels),
        area_(shape.out_area()),
        count_(examples * shape.out_area()),
        length_(length),
        out_diff_(out_diff),
        target_(target) {}

  MONSOON_PORTABLE double Partial(uint32_t row, uint32_t thread, uint32_t threads) const {
    const uint32_t slice = channels_.Quotient(row);
    const uint32_t begin = slice * length_;
    const uint32_t end = begin + length_ < count_ ? begin + length_ : count_;
    const float* from = out_diff_ + (row - slice * channels_.value()) * area_.value();
    uint32_t i = begin + thread;
    double sum = 0;
    for (; i + 3 * threads < end; i += 4 * threads) {
      sum += static_cast<double>((from[Place(i)] + from[Place(i + threads)]) +
                                 (from[Place(i + 2 * threads)] + from[Place(i + 3 * threads)]));
    }
    for (; i < end; i += threads) {
      sum += static_cast<double>(from[Place(i)]);
    }
    return sum;
  }
  MONSOON_PORTABLE static double Combine(double a, double b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t row, double sum) const {
    target_.Store(channels_.Remainder(row), row, sum);
  }

 private:
  // From position 0 of sample 0.
  MONSOON_PORTABLE uint32_t Place(uint32_t i) const {
    return i + area_.Quotient(i) * (channels_.value() - 1) * area_.value();
  }

  Divisor channels_;
  Divisor area_;
  uint32_t count_;
  uint32_t length_;
  const float* out_diff_;
  SumTarget target_;
};

}  // namespace monsoon::cuda
