// A locally connected layer between products: each output position p has weights of its own, so
// that columns [p][n][patch] times W[p][filters, patch]^T is a product for each position. `group`
// is a number of samples, n counts within it, and images are [n, c, h, w].
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// columns[p, n, (c, dy, dx)] = in[n, c, y * stride + dy - padding, x * stride + dx - padding], 0
// outside the image. T: float or uint16_t. Count: group * out_area() * patch().
template <typename T>
class UnfoldPatches {
 public:
  UnfoldPatches(const ImageShape& shape, uint32_t group, HalfType type, const float* in, T* columns)
      : shape_(shape),
        patch_(shape.patch()),
        group_(group),
        window_(shape.window),
        area_(shape.window * shape.window),
        width_(shape.out_width),
        type_(type),
        in_(in),
        columns_(columns) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t row = patch_.Quotient(i);
    const uint32_t p = group_.Quotient(row);
    const uint32_t n = row - p * group_.value();
    const uint32_t in_patch = i - row * patch_.value();
    const uint32_t c = area_.Quotient(in_patch);
    const uint32_t in_window = in_patch - c * area_.value();
    const uint32_t dy = window_.Quotient(in_window);
    const uint32_t dx = in_window - dy * window_.value();
    const uint32_t y = width_.Quotient(p);
    // Those before the image become large.
    const uint32_t iy = y * shape_.stride + dy - shape_.padding;
    const uint32_t ix = (p - y * width_.value()) * shape_.stride + dx - shape_.padding;
    const bool inside = iy < shape_.height && ix < shape_.width;
    const uint32_t plane = n * shape_.channels + c;
    StoreAs(inside ? in_[(plane * shape_.height + iy) * shape_.width + ix] : 0.0f, type_,
            columns_ + i);
  }

 private:
  ImageShape shape_;
  Divisor patch_;
  Divisor group_;
  Divisor window_;
  Divisor area_;
  Divisor width_;
  HalfType type_;
  const float* in_;
  T* columns_;
};

// in_diff[n, c, y, x] = the sum of what its windows' columns have of it. Count: group * in_size().
class FoldPatches {
 public:
  FoldPatches(const ImageShape& shape, uint32_t group, const float* columns, float* in_diff)
      : shape_(shape),
        channels_(shape.channels),
        width_(shape.width),
        height_(shape.height),
        stride_(shape.stride),
        group_(group),
        columns_(columns),
        in_diff_(in_diff) {}

  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t line = width_.Quotient(i);
    const uint32_t x = i - line * width_.value() + shape_.padding;
    const uint32_t plane = height_.Quotient(line);
    const uint32_t y = line - plane * height_.value() + shape_.padding;
    const uint32_t n = channels_.Quotient(plane);
    const uint32_t c = plane - n * channels_.value();
    float sum = 0.0f;
    MONSOON_ROLLED
    for (uint32_t dy = 0; dy < shape_.window && dy <= y; ++dy) {
      const uint32_t oy = stride_.Quotient(y - dy);
      if (oy * stride_.value() != y - dy || oy >= shape_.out_height) {
        continue;
      }
      MONSOON_ROLLED
      for (uint32_t dx = 0; dx < shape_.window && dx <= x; ++dx) {
        const uint32_t ox = stride_.Quotient(x - dx);
        if (ox * stride_.value() == x - dx && ox < shape_.out_width) {
          const uint32_t row = (oy * shape_.out_width + ox) * group_ + n;
          sum += columns_[row * shape_.patch() + (c * shape_.window + dy) * shape_.window + dx];
        }
      }
    }
    in_diff_[i] = sum;
  }

 private:
  ImageShape shape_;
  Divisor channels_;
  Divisor width_;
  Divisor height_;
  Divisor stride_;
  uint32_t group_;
  const float* columns_;
  float* in_diff_;
};

// Between products [p][n][filter] and images [n][filter][p]. Element i is of the images. Count:
// group * out_size().
struct PositionsFirst {
  Divisor area;
  Divisor filters;
  uint32_t group;
  MONSOON_PORTABLE uint32_t Product(uint32_t i) const {
    const uint32_t plane = area.Quotient(i);
    const uint32_t n = filters.Quotient(plane);
    const uint32_t filter = plane - n * filters.value();
    return ((i - plane * area.value()) * group + n) * filters.value() + filter;
  }
};

// Biases have the shape of a sample's output.
struct ProductsToOutputs {
  PositionsFirst place;
  Divisor out_size;
  const float* product;
  const float* bias;  // null: none
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const float value = product[place.Product(i)];
    out[i] = bias == nullptr ? value : value + bias[out_size.Remainder(i)];
  }
};

template <typename T>
struct OutputsToProducts {
  PositionsFirst place;
  HalfType type;
  const float* out_diff;
  T* product;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    StoreAs(out_diff[i], type, product + place.Product(i));
  }
};

}  // namespace monsoon::cuda
