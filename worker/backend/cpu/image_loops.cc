#include "worker/backend/cpu/image_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

// Four rows at a time: the sums are read and written once for them.
void Add(size_t rows, size_t columns, const float* __restrict x, float* __restrict sums) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    for (size_t j = 0; j < columns; ++j) {
      sums[j] += (x[j] + x[columns + j]) + (x[2 * columns + j] + x[3 * columns + j]);
    }
  }
  for (; r < rows; ++r, x += columns) {
    for (size_t j = 0; j < columns; ++j) {
      sums[j] += x[j];
    }
  }
}

void AddSquares(size_t rows, size_t columns, const float* __restrict x,
                const float* __restrict mean, float* __restrict sums) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    for (size_t j = 0; j < columns; ++j) {
      const float a = x[j] - mean[j], b = x[columns + j] - mean[j];
      const float c = x[2 * columns + j] - mean[j], d = x[3 * columns + j] - mean[j];
      sums[j] += (a * a + b * b) + (c * c + d * d);
    }
  }
  for (; r < rows; ++r, x += columns) {
    for (size_t j = 0; j < columns; ++j) {
      const float a = x[j] - mean[j];
      sums[j] += a * a;
    }
  }
}

void Normalise(size_t rows, size_t columns, const float* __restrict x, const float* __restrict mean,
               const float* __restrict scale, const float* __restrict shift, bool relu,
               float* __restrict y) {
  for (size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    if (relu) {
      for (size_t j = 0; j < columns; ++j) {
        const float value = (x[j] - mean[j]) * scale[j] + shift[j];
        y[j] = value < 0 ? 0 : value;
      }
    } else {
      for (size_t j = 0; j < columns; ++j) {
        y[j] = (x[j] - mean[j]) * scale[j] + shift[j];
      }
    }
  }
}

void Mask(size_t floats, const float* __restrict y, float* __restrict diff) {
  for (size_t i = 0; i < floats; ++i) {
    diff[i] = y[i] <= 0 ? 0 : diff[i];
  }
}

void AddProducts(size_t rows, size_t columns, const float* __restrict x,
                 const float* __restrict mean, const float* __restrict diff, float* __restrict sums,
                 float* __restrict products) {
  size_t r = 0;
  for (; r + 2 <= rows; r += 2, x += 2 * columns, diff += 2 * columns) {
    for (size_t j = 0; j < columns; ++j) {
      sums[j] += diff[j] + diff[columns + j];
      products[j] += diff[j] * (x[j] - mean[j]) + diff[columns + j] * (x[columns + j] - mean[j]);
    }
  }
  for (; r < rows; ++r, x += columns, diff += columns) {
    for (size_t j = 0; j < columns; ++j) {
      sums[j] += diff[j];
      products[j] += diff[j] * (x[j] - mean[j]);
    }
  }
}

void Denormalise(size_t rows, size_t columns, const float* __restrict x,
                 const float* __restrict mean, const float* __restrict diff,
                 const float* __restrict scale, const float* __restrict slope,
                 const float* __restrict shift, float* __restrict in_diff) {
  for (size_t r = 0; r < rows; ++r, x += columns, diff += columns, in_diff += columns) {
    for (size_t j = 0; j < columns; ++j) {
      in_diff[j] = diff[j] * scale[j] + (x[j] - mean[j]) * slope[j] + shift[j];
    }
  }
}

constexpr size_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
// Part of any array of floats; nowhere else, since clang forgets the alignment of references.
typedef float Part __attribute__((vector_size(kLanes * sizeof(float)), may_alias, aligned(4)));

float SumOf(const Lanes& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

const Part* At(const float* x) { return reinterpret_cast<const Part*>(x); }

void Sum(size_t pixels, size_t channels, const float* __restrict x, float* __restrict sums) {
  for (size_t p = 0; p < pixels; ++p, x += channels) {
    Lanes lanes = {};
    size_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      lanes += *At(x + c);
    }
    float sum = c > 0 ? SumOf(lanes) : 0;
    for (; c < channels; ++c) {
      sum += x[c];
    }
    sums[p] = sum;
  }
}

void Dot(size_t pixels, size_t channels, const float* __restrict x, const float* __restrict y,
         float* __restrict sums) {
  for (size_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    Lanes lanes = {};
    size_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      lanes += *At(x + c) * *At(y + c);
    }
    float sum = c > 0 ? SumOf(lanes) : 0;
    for (; c < channels; ++c) {
      sum += x[c] * y[c];
    }
    sums[p] = sum;
  }
}

void Subtract(size_t pixels, size_t channels, const float* __restrict x,
              const float* __restrict mean, float* __restrict v, float* __restrict squares) {
  for (size_t p = 0; p < pixels; ++p, x += channels, v += channels) {
    const float of_pixel = mean[p];
    Lanes lanes = {};
    size_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      const Lanes values = *At(x + c) - of_pixel;
      *reinterpret_cast<Part*>(v + c) = values;
      lanes += values * values;
    }
    float sum = c > 0 ? SumOf(lanes) : 0;
    for (; c < channels; ++c) {
      const float value = x[c] - of_pixel;
      v[c] = value;
      sum += value * value;
    }
    squares[p] = sum;
  }
}

void Scale(size_t pixels, size_t channels, const float* __restrict factor, float* __restrict y) {
  for (size_t p = 0; p < pixels; ++p, y += channels) {
    for (size_t c = 0; c < channels; ++c) {
      y[c] *= factor[p];
    }
  }
}

void Lower(size_t pixels, size_t channels, const float* __restrict by, float* __restrict y) {
  for (size_t p = 0; p < pixels; ++p, y += channels) {
    for (size_t c = 0; c < channels; ++c) {
      y[c] -= by[p];
    }
  }
}

void Combine(size_t pixels, size_t channels, const float* __restrict factor,
             const float* __restrict y, const float* __restrict slope, float* __restrict diff) {
  for (size_t p = 0; p < pixels; ++p, y += channels, diff += channels) {
    for (size_t c = 0; c < channels; ++c) {
      diff[c] = diff[c] * factor[p] + y[c] * slope[p];
    }
  }
}

void AddScaled(size_t floats, float weight, const float* __restrict in, float* __restrict out) {
  for (size_t i = 0; i < floats; ++i) {
    out[i] += weight * in[i];
  }
}

void Blur(size_t height, size_t width, size_t half, const float* weights, const float* in,
          float* scratch, float* out) {
  // Sideways into `rows`, by way of one row with zeros at its ends.
  float* const rows = scratch;
  float* const padded = scratch + height * width;
  for (size_t x = 0; x < half; ++x) {
    padded[x] = padded[half + width + x] = 0;
  }
  for (size_t y = 0; y < height; ++y) {
    float* const row = rows + y * width;
    for (size_t x = 0; x < width; ++x) {
      padded[half + x] = in[y * width + x];
      row[x] = 0;
    }
    for (size_t i = 0; i <= 2 * half; ++i) {
      AddScaled(width, weights[i], padded + i, row);
    }
  }
  for (size_t y = 0; y < height; ++y) {
    float* const row = out + y * width;
    for (size_t x = 0; x < width; ++x) {
      row[x] = 0;
    }
    const size_t first = y < half ? half - y : 0;
    for (size_t i = first; i <= 2 * half && y + i < height + half; ++i) {
      AddScaled(width, weights[i], rows + (y + i - half) * width, row);
    }
  }
}

}  // namespace

const cpu::ColumnLoops kColumnLoops = {.add = Add,
                                       .add_squares = AddSquares,
                                       .normalise = Normalise,
                                       .mask = Mask,
                                       .add_products = AddProducts,
                                       .denormalise = Denormalise};
const cpu::PixelLoops kPixelLoops = {.sum = Sum,
                                     .subtract = Subtract,
                                     .dot = Dot,
                                     .scale = Scale,
                                     .lower = Lower,
                                     .combine = Combine,
                                     .blur = Blur};

}  // namespace monsoon::SIMD_NAMESPACE
