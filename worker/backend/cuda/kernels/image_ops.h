// Operations on images: the two halves of a convolution by matrix products, and
// pooling. Images are [n, c, h, w]. An operation is a class with operator()(i)
// as in elementwise.h; each i writes its own output elements, so that nothing
// is added up in an order that could change.
//
// A convolution computes `group` samples at a time, from the sample `first` on,
// with positions = group * out_height * out_width columns:
//   forward  columns = Im2col(in); product = W columns; out = ToImages(product)
//   backward rows = FromImages(out_diff); dW += rows columns^T;
//            columns = W^T rows; in_diff = Col2im(columns)
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

struct ImageShape {
  uint32_t channels, height, width;
  uint32_t out_channels, out_height, out_width;
  uint32_t window, stride, padding;

  MONSOON_PORTABLE uint32_t out_area() const { return out_height * out_width; }
  MONSOON_PORTABLE uint32_t in_size() const { return channels * height * width; }
  MONSOON_PORTABLE uint32_t out_size() const { return out_channels * out_area(); }
  // Rows of the column matrix: inputs of one output.
  MONSOON_PORTABLE uint32_t patch() const { return channels * window * window; }
};

MONSOON_PORTABLE void StoreAs(float value, HalfType /*type*/, float* to) { *to = value; }
MONSOON_PORTABLE void StoreAs(float value, HalfType type, uint16_t* to) {
  *to = ToHalf(type, value);
}

// columns[(c, dy, dx), (n, y, x)] = in[first + n, c, y * stride + dy - padding,
// x * stride + dx - padding], 0 outside the image. T: float or uint16_t.
// Count: patch() * group * out_area().
template <typename T>
struct Im2col {
  ImageShape shape;
  HalfType type;
  uint32_t positions;
  const float* in;  // of sample `first`
  T* columns;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = i / positions;
    const uint32_t position = i % positions;
    const uint32_t dx = row % shape.window;
    const uint32_t dy = row / shape.window % shape.window;
    const uint32_t c = row / (shape.window * shape.window);
    const uint32_t x = position % shape.out_width;
    const uint32_t y = position / shape.out_width % shape.out_height;
    const uint32_t n = position / shape.out_area();
    // Unsigned wrap-around makes positions before the image large.
    const uint32_t iy = y * shape.stride + dy - shape.padding;
    const uint32_t ix = x * shape.stride + dx - shape.padding;
    float value = 0.0f;
    if (iy < shape.height && ix < shape.width) {
      value = in[((n * shape.channels + c) * shape.height + iy) * shape.width + ix];
    }
    StoreAs(value, type, columns + i);
  }
};

// The transpose: each input gathers what its copies in the columns got, in a
// fixed order. Count: group * in_size().
struct Col2im {
  ImageShape shape;
  uint32_t positions;
  const float* columns;
  float* in_diff;  // of sample `first`
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t ix = i % shape.width;
    const uint32_t iy = i / shape.width % shape.height;
    const uint32_t c = i / (shape.width * shape.height) % shape.channels;
    const uint32_t n = i / shape.in_size();
    float sum = 0.0f;
    for (uint32_t dy = 0; dy < shape.window; ++dy) {
      // iy = y * stride + dy - padding has a y in range, or no output reads it.
      const uint32_t from_y = iy + shape.padding - dy;
      if (iy + shape.padding < dy || from_y % shape.stride != 0 ||
          from_y / shape.stride >= shape.out_height) {
        continue;
      }
      for (uint32_t dx = 0; dx < shape.window; ++dx) {
        const uint32_t from_x = ix + shape.padding - dx;
        if (ix + shape.padding < dx || from_x % shape.stride != 0 ||
            from_x / shape.stride >= shape.out_width) {
          continue;
        }
        const uint32_t row = (c * shape.window + dy) * shape.window + dx;
        const uint32_t position = (n * shape.out_height + from_y / shape.stride) * shape.out_width +
                                  from_x / shape.stride;
        sum += columns[row * positions + position];
      }
    }
    in_diff[i] = sum;
  }
};

// out[first + n, k, p] = product[k, (n, p)] + bias[k]; no bias: null. Count:
// group * out_size().
struct ToImages {
  ImageShape shape;
  uint32_t positions;
  const float* product;
  const float* bias;
  float* out;  // of sample `first`
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t p = i % shape.out_area();
    const uint32_t k = i / shape.out_area() % shape.out_channels;
    const uint32_t n = i / shape.out_size();
    const float value = product[k * positions + n * shape.out_area() + p];
    out[i] = bias == nullptr ? value : value + bias[k];
  }
};

// rows[k, (n, p)] = out_diff[first + n, k, p]. Count: group * out_size().
template <typename T>
struct FromImages {
  ImageShape shape;
  HalfType type;
  uint32_t positions;
  const float* out_diff;  // of sample `first`
  T* rows;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t k = i / positions;
    const uint32_t n = i % positions / shape.out_area();
    const uint32_t p = i % shape.out_area();
    StoreAs(out_diff[(n * shape.out_channels + k) * shape.out_area() + p], type, rows + i);
  }
};

// sums[k] = sum over samples and positions of out_diff[n, k, p]: the bias
// gradient. See ReduceRows in launch.h for the form.
struct ChannelSums {
  using Value = float;
  ImageShape shape;
  uint32_t examples;
  const float* out_diff;
  float* sums;
  MONSOON_PORTABLE float Partial(uint32_t k, uint32_t thread, uint32_t threads) const {
    float sum = 0.0f;
    const uint32_t count = examples * shape.out_area();
    for (uint32_t i = thread; i < count; i += threads) {
      const uint32_t n = i / shape.out_area();
      const uint32_t p = i % shape.out_area();
      sum += out_diff[(n * shape.out_channels + k) * shape.out_area() + p];
    }
    return sum;
  }
  MONSOON_PORTABLE static float Combine(float a, float b) { return a + b; }
  MONSOON_PORTABLE void Finish(uint32_t k, float sum) const { sums[k] = sum; }
};

// The input index at the upper left of output o's window; planes (n, c) keep
// their number.
MONSOON_PORTABLE uint32_t WindowStart(const ImageShape& shape, uint32_t o) {
  const uint32_t x = o % shape.out_width;
  const uint32_t y = o / shape.out_width % shape.out_height;
  const uint32_t plane = o / shape.out_area();
  return (plane * shape.height + y * shape.stride) * shape.width + x * shape.stride;
}

// The input index of the window's maximum; of equal ones the first in row order.
MONSOON_PORTABLE uint32_t LargestOfWindow(const ImageShape& shape, const float* in, uint32_t o) {
  const uint32_t start = WindowStart(shape, o);
  uint32_t best = start;
  for (uint32_t dy = 0; dy < shape.window; ++dy) {
    for (uint32_t dx = 0; dx < shape.window; ++dx) {
      const uint32_t at = start + dy * shape.width + dx;
      best = in[at] > in[best] ? at : best;
    }
  }
  return best;
}

// Count: outputs.
struct PoolForward {
  ImageShape shape;
  bool maximum;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t o) const {
    if (maximum) {
      out[o] = in[LargestOfWindow(shape, in, o)];
      return;
    }
    const uint32_t start = WindowStart(shape, o);
    float sum = 0.0f;
    for (uint32_t dy = 0; dy < shape.window; ++dy) {
      for (uint32_t dx = 0; dx < shape.window; ++dx) {
        sum += in[start + dy * shape.width + dx];
      }
    }
    out[o] = sum / static_cast<float>(shape.window * shape.window);
  }
};

// Each input gathers from the outputs whose window holds it. Count: inputs.
struct PoolBackward {
  ImageShape shape;
  bool maximum;
  const float* in;
  const float* out_diff;
  float* in_diff;

  // The outputs [first, last) along one axis whose window holds `at`.
  MONSOON_PORTABLE void Range(uint32_t at, uint32_t outputs, uint32_t* first,
                              uint32_t* last) const {
    *first = at < shape.window ? 0 : (at - shape.window) / shape.stride + 1;
    *last = at / shape.stride + 1;
    *last = *last < outputs ? *last : outputs;
  }

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t plane = i / (shape.width * shape.height);
    uint32_t y, y_end, x_begin, x_end;
    Range(i / shape.width % shape.height, shape.out_height, &y, &y_end);
    Range(i % shape.width, shape.out_width, &x_begin, &x_end);
    float sum = 0.0f;
    for (; y < y_end; ++y) {
      for (uint32_t x = x_begin; x < x_end; ++x) {
        const uint32_t o = (plane * shape.out_height + y) * shape.out_width + x;
        if (!maximum || LargestOfWindow(shape, in, o) == i) {
          sum += out_diff[o];
        }
      }
    }
    in_diff[i] = maximum ? sum : sum / static_cast<float>(shape.window * shape.window);
  }
};

}  // namespace monsoon::cuda
