// Operations on images: the two halves of a convolution by matrix products, and
// pooling. Images are [n, c, h, w]. An operation is a class with operator()(i)
// as in elementwise.h; each i writes its own output elements, so that nothing
// is added up in an order that could change.
//
// A convolution computes `group` samples at a time, from the sample `first` on, in
// one of two forms (layers/conv2d.cc chooses):
//   by sample, a product for each n, columns [n][patch, area]:
//     forward  columns = Im2col(in); out[n] = W columns[n]; out += bias
//     backward dW = sum over n of out_diff[n] columns[n]^T;
//              columns[n] = W^T out_diff[n]; in_diff = Col2im(columns)
//   of the group, one product, columns [patch, (n, area)]:
//     forward  columns = Im2col(in); product = W columns; out = ToImages(product)
//     backward rows = FromImages(out_diff); dW += rows columns^T;
//              columns = W^T rows; in_diff = Col2im(columns)
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
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

// Element (row, n, position) of a column matrix lies at row * row_stride +
// n * sample_stride + position.
struct ColumnsLayout {
  uint32_t row_stride;
  uint32_t sample_stride;

  static ColumnsLayout BySample(const ImageShape& shape) {
    return {shape.out_area(), shape.patch() * shape.out_area()};
  }
  static ColumnsLayout OfGroup(const ImageShape& shape, uint32_t group) {
    return {group * shape.out_area(), shape.out_area()};
  }
};

// columns[(c, dy, dx), n, (y, x)] = in[first + n, c, y * stride + dy - padding,
// x * stride + dx - padding], 0 outside the image. T: float or uint16_t. Each i is
// an (n, c, y, x) and writes its window, so that what it costs to find its place is
// paid once for window * window values. Count: group * channels * out_area().
//
// kWindow: the window where it is known when compiled, so that its loops are
// unrolled; else 0.
template <typename T, uint32_t kWindow = 0>
class Im2col {
 public:
  // `in` is of sample `first`.
  Im2col(const ImageShape& shape, const ColumnsLayout& layout, HalfType type, const float* in,
         T* columns)
      : shape_(shape),
        layout_(layout),
        channels_(shape.channels),
        out_height_(shape.out_height),
        out_width_(shape.out_width),
        type_(type),
        in_(in),
        columns_(columns) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t window = kWindow != 0 ? kWindow : shape_.window;
    const uint32_t line = out_width_.Quotient(i);
    const uint32_t x = i - line * shape_.out_width;
    const uint32_t plane = out_height_.Quotient(line);
    const uint32_t y = line - plane * shape_.out_height;
    const uint32_t n = channels_.Quotient(plane);
    const uint32_t c = plane - n * shape_.channels;
    // Unsigned wrap-around makes positions before the image large.
    const uint32_t iy = y * shape_.stride - shape_.padding;
    const uint32_t ix = x * shape_.stride - shape_.padding;
    const float* from =
        in_ + static_cast<int32_t>((plane * shape_.height + iy) * shape_.width + ix);
    T* to = columns_ + (n * layout_.sample_stride + c * window * window * layout_.row_stride +
                        y * shape_.out_width + x);
    for (uint32_t dy = 0; dy < window; ++dy) {
      const bool in_height = iy + dy < shape_.height;
      for (uint32_t dx = 0; dx < window; ++dx) {
        const bool inside = in_height && ix + dx < shape_.width;
        StoreAs(inside ? from[dx] : 0.0f, type_, to);
        to += layout_.row_stride;
      }
      from += shape_.width;
    }
  }

 private:
  ImageShape shape_;
  ColumnsLayout layout_;
  Divisor channels_;
  Divisor out_height_;
  Divisor out_width_;
  HalfType type_;
  const float* in_;
  T* columns_;
};

// The outputs along one axis whose windows hold `at` of the padded image.
struct AxisRange {
  uint32_t begin;
  uint32_t end;  // not above begin: none
};
MONSOON_PORTABLE AxisRange OutputsAt(uint32_t at, uint32_t window, const Divisor& stride,
                                     uint32_t outputs) {
  const uint32_t end = stride.Quotient(at) + 1;
  return {at < window ? 0 : stride.Quotient(at - window) + 1, end < outputs ? end : outputs};
}

// The transpose: each input gathers what its copies in the columns got, in the order
// of the rows. Count: group * in_size().
class Col2im {
 public:
  // `in_diff` is of sample `first`.
  Col2im(const ImageShape& shape, const ColumnsLayout& layout, const float* columns, float* in_diff)
      : shape_(shape),
        layout_(layout),
        channels_(shape.channels),
        height_(shape.height),
        width_(shape.width),
        stride_(shape.stride),
        columns_(columns),
        in_diff_(in_diff) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t line = width_.Quotient(i);
    const uint32_t plane = height_.Quotient(line);
    const uint32_t n = channels_.Quotient(plane);
    const uint32_t c = plane - n * shape_.channels;
    const uint32_t py = line - plane * shape_.height + shape_.padding;
    const uint32_t px = i - line * shape_.width + shape_.padding;
    const AxisRange ys = OutputsAt(py, shape_.window, stride_, shape_.out_height);
    const AxisRange xs = OutputsAt(px, shape_.window, stride_, shape_.out_width);
    float sum = 0.0f;
    if (ys.begin < ys.end && xs.begin < xs.end) {
      // From the last output down, dy and dx go up and so does the row.
      const uint32_t dy = py - (ys.end - 1) * shape_.stride;
      const uint32_t dx = px - (xs.end - 1) * shape_.stride;
      const uint32_t row = (c * shape_.window + dy) * shape_.window + dx;
      uint32_t first = row * layout_.row_stride + n * layout_.sample_stride +
                       (ys.end - 1) * shape_.out_width + xs.end - 1;
      const uint32_t next_x = shape_.stride * layout_.row_stride - 1;
      const uint32_t next_y = shape_.stride * shape_.window * layout_.row_stride - shape_.out_width;
      MONSOON_ROLLED
      for (uint32_t y = ys.begin; y < ys.end; ++y) {
        uint32_t at = first;
        MONSOON_ROLLED
        for (uint32_t x = xs.begin; x < xs.end; ++x) {
          sum += columns_[at];
          at += next_x;
        }
        first += next_y;
      }
    }
    in_diff_[i] = sum;
  }

 private:
  ImageShape shape_;
  ColumnsLayout layout_;
  Divisor channels_;
  Divisor height_;
  Divisor width_;
  Divisor stride_;
  const float* columns_;
  float* in_diff_;
};

// out[n, k, p] += bias[k]. Count: samples * out_size().
class AddChannelBias {
 public:
  AddChannelBias(const ImageShape& shape, const float* bias, float* out)
      : out_area_(shape.out_area()), out_channels_(shape.out_channels), bias_(bias), out_(out) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    out_[i] += bias_[out_channels_.Remainder(out_area_.Quotient(i))];
  }

 private:
  Divisor out_area_;
  Divisor out_channels_;
  const float* bias_;
  float* out_;
};

// Where (n, k, p) lies in a [k, (n, p)] matrix, from its number i in [n, k, p].
class GroupPlace {
 public:
  GroupPlace(const ImageShape& shape, uint32_t group)
      : out_area_(shape.out_area()),
        out_channels_(shape.out_channels),
        positions_(group * shape.out_area()) {}

  struct Place {
    uint32_t k;
    uint32_t at;
  };
  MONSOON_PORTABLE Place operator()(uint32_t i) const {
    const uint32_t plane = out_area_.Quotient(i);
    const uint32_t n = out_channels_.Quotient(plane);
    const uint32_t k = plane - n * out_channels_.value();
    const uint32_t p = i - plane * out_area_.value();
    return {k, k * positions_ + n * out_area_.value() + p};
  }

 private:
  Divisor out_area_;
  Divisor out_channels_;
  uint32_t positions_;
};

// out[first + n, k, p] = product[k, (n, p)] + bias[k]; no bias: null. Count:
// group * out_size().
class ToImages {
 public:
  // `out` is of sample `first`.
  ToImages(const ImageShape& shape, uint32_t group, const float* product, const float* bias,
           float* out)
      : place_(shape, group), product_(product), bias_(bias), out_(out) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const GroupPlace::Place place = place_(i);
    const float value = product_[place.at];
    out_[i] = bias_ == nullptr ? value : value + bias_[place.k];
  }

 private:
  GroupPlace place_;
  const float* product_;
  const float* bias_;
  float* out_;
};

// rows[k, (n, p)] = out_diff[first + n, k, p]. Count: group * out_size().
template <typename T>
class FromImages {
 public:
  // `out_diff` is of sample `first`.
  FromImages(const ImageShape& shape, uint32_t group, HalfType type, const float* out_diff, T* rows)
      : place_(shape, group), type_(type), out_diff_(out_diff), rows_(rows) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    StoreAs(out_diff_[i], type_, rows_ + place_(i).at);
  }

 private:
  GroupPlace place_;
  HalfType type_;
  const float* out_diff_;
  T* rows_;
};

// The input index of the maximum of the window that starts at `start`; of equal ones
// the first in row order.
MONSOON_PORTABLE uint32_t LargestOfWindow(const ImageShape& shape, const float* in,
                                          uint32_t start) {
  uint32_t best = start;
  float largest = in[start];
  MONSOON_ROLLED
  for (uint32_t dy = 0; dy < shape.window; ++dy) {
    MONSOON_ROLLED
    for (uint32_t dx = 0; dx < shape.window; ++dx) {
      const uint32_t at = start + dy * shape.width + dx;
      const float value = in[at];
      best = value > largest ? at : best;
      largest = value > largest ? value : largest;
    }
  }
  return best;
}

// Planes (n, c) keep their number. Count: outputs.
class PoolForward {
 public:
  PoolForward(const ImageShape& shape, bool maximum, const float* in, float* out)
      : shape_(shape),
        out_height_(shape.out_height),
        out_width_(shape.out_width),
        maximum_(maximum),
        in_(in),
        out_(out) {}

  MONSOON_PORTABLE void operator()(uint32_t o) const {
    const uint32_t line = out_width_.Quotient(o);
    const uint32_t plane = out_height_.Quotient(line);
    const uint32_t y = line - plane * shape_.out_height;
    const uint32_t x = o - line * shape_.out_width;
    // The upper left of the window.
    const uint32_t start =
        (plane * shape_.height + y * shape_.stride) * shape_.width + x * shape_.stride;
    if (maximum_) {
      out_[o] = in_[LargestOfWindow(shape_, in_, start)];
      return;
    }
    float sum = 0.0f;
    MONSOON_ROLLED
    for (uint32_t dy = 0; dy < shape_.window; ++dy) {
      MONSOON_ROLLED
      for (uint32_t dx = 0; dx < shape_.window; ++dx) {
        sum += in_[start + dy * shape_.width + dx];
      }
    }
    out_[o] = sum / static_cast<float>(shape_.window * shape_.window);
  }

 private:
  ImageShape shape_;
  Divisor out_height_;
  Divisor out_width_;
  bool maximum_;
  const float* in_;
  float* out_;
};

// Each input gathers from the outputs whose window holds it. Count: inputs.
class PoolBackward {
 public:
  PoolBackward(const ImageShape& shape, bool maximum, const float* in, const float* out_diff,
               float* in_diff)
      : shape_(shape),
        height_(shape.height),
        width_(shape.width),
        stride_(shape.stride),
        maximum_(maximum),
        in_(in),
        out_diff_(out_diff),
        in_diff_(in_diff) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t line = width_.Quotient(i);
    const uint32_t plane = height_.Quotient(line);
    const AxisRange ys =
        OutputsAt(line - plane * shape_.height, shape_.window, stride_, shape_.out_height);
    const AxisRange xs =
        OutputsAt(i - line * shape_.width, shape_.window, stride_, shape_.out_width);
    float sum = 0.0f;
    MONSOON_ROLLED
    for (uint32_t y = ys.begin; y < ys.end; ++y) {
      const uint32_t out_line = (plane * shape_.out_height + y) * shape_.out_width;
      const uint32_t in_line = (plane * shape_.height + y * shape_.stride) * shape_.width;
      MONSOON_ROLLED
      for (uint32_t x = xs.begin; x < xs.end; ++x) {
        if (!maximum_ || LargestOfWindow(shape_, in_, in_line + x * shape_.stride) == i) {
          sum += out_diff_[out_line + x];
        }
      }
    }
    in_diff_[i] = maximum_ ? sum : sum / static_cast<float>(shape_.window * shape_.window);
  }

 private:
  ImageShape shape_;
  Divisor height_;
  Divisor width_;
  Divisor stride_;
  bool maximum_;
  const float* in_;
  const float* out_diff_;
  float* in_diff_;
};

}  // namespace monsoon::cuda
