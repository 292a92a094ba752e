#include "worker/backend/cpu/sample_blocked_loops.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// As simd_library's files, this one defines nothing that the linker could share
// with code for other machines.
namespace monsoon::cpu {
namespace {

// May be part of any array of floats.
typedef float SampleVector __attribute__((vector_size(kBlockSamples * sizeof(float)), may_alias));

// The widest tile of pixels: with a group it fills 25 of the 32 registers.
constexpr size_t kTile = 5;

SampleVector* AsVectors(float* values) { return reinterpret_cast<SampleVector*>(values); }
const SampleVector* AsVectors(const float* values) {
  return reinterpret_cast<const SampleVector*>(values);
}

// Where a value is not less than or equal to zero: NaN counts.
uint16_t Passing(SampleVector values) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(values), _mm512_setzero_ps(), _CMP_NLE_UQ);
#else
  uint16_t bits = 0;
  for (size_t i = 0; i < kBlockSamples; ++i) {
    bits |= static_cast<uint16_t>(values[i] <= 0 ? 0 : 1 << i);
  }
  return bits;
#endif
}

SampleVector Masked(uint16_t bits, SampleVector values) {
#if defined(__AVX512F__)
  return reinterpret_cast<SampleVector>(
      _mm512_maskz_mov_ps(bits, reinterpret_cast<__m512>(values)));
#else
  for (size_t i = 0; i < kBlockSamples; ++i) {
    values[i] = (bits >> i & 1) != 0 ? values[i] : 0;
  }
  return values;
#endif
}

// By halves: eight sums, four, two, one.
float SumOfSamples(SampleVector values) {
  const auto eight = __builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
                    __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// kPixels neighbours in a row of the output, of kGroup filters.
template <size_t kPixels>
void ForwardTile(const SampleBlockedShape& shape, const SampleVector* input, const float* weights,
                 const float* bias, SampleVector* output) {
  SampleVector sums[kGroup][kPixels];
  for (size_t f = 0; f < kGroup; ++f) {
    for (size_t p = 0; p < kPixels; ++p) {
      sums[f][p] = bias[f] - SampleVector{};
    }
  }
  for (size_t c = 0; c < shape.channels; ++c) {
    for (size_t i = 0; i < shape.kernel; ++i) {
      const SampleVector* row = input + (c * shape.height + i) * shape.width;
      for (size_t j = 0; j < shape.kernel; ++j) {
        for (size_t p = 0; p < kPixels; ++p) {
          const SampleVector value = row[j + p];
          for (size_t f = 0; f < kGroup; ++f) {
            sums[f][p] += value * weights[f];
          }
        }
        weights += kGroup;
      }
    }
  }
  const size_t plane = shape.out_height * shape.out_width;
  for (size_t f = 0; f < kGroup; ++f) {
    for (size_t p = 0; p < kPixels; ++p) {
      output[f * plane + p] = sums[f][p];
    }
  }
}

using ForwardFunction = void (*)(const SampleBlockedShape&, const SampleVector*, const float*,
                                 const float*, SampleVector*);
constexpr ForwardFunction kForwardTiles[kTile] = {ForwardTile<1>, ForwardTile<2>, ForwardTile<3>,
                                                  ForwardTile<4>, ForwardTile<5>};

void Forward(const SampleBlockedShape& shape, const float* input, const float* weights,
             const float* bias, float* output) {
  for (size_t y = 0; y < shape.out_height; ++y) {
    for (size_t x = 0; x < shape.out_width;) {
      const size_t left = shape.out_width - x;
      // No tile of one pixel behind a full one.
      const size_t pixels = left <= kTile ? left : left == kTile + 1 ? kTile - 2 : kTile;
      kForwardTiles[pixels - 1](shape, AsVectors(input) + y * shape.width + x, weights, bias,
                                AsVectors(output) + y * shape.out_width + x);
      x += pixels;
    }
  }
}

void Pool(const SampleBlockedShape& shape, const float* output, float* pooled, uint16_t* passed) {
  const size_t window = shape.window;
  const size_t height = shape.out_height / window;
  const size_t width = shape.out_width / window;
  const float scale = 1.0f / static_cast<float>(window * window);
  SampleVector* to = AsVectors(pooled);
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      SampleVector sum = {};
      for (size_t i = 0; i < window; ++i) {
        const size_t row = (y * window + i) * shape.out_width + x * window;
        for (size_t j = 0; j < window; ++j) {
          const SampleVector value = AsVectors(output)[row + j];
          const uint16_t bits = shape.relu ? Passing(value) : uint16_t{0xffff};
          passed[row + j] = bits;
          sum += Masked(bits, value);
        }
      }
      *to++ = sum * scale;
    }
  }
}

void Unpool(const SampleBlockedShape& shape, const float* pooled_diff, const uint16_t* passed,
            float* output_diff, float* sum) {
  const size_t window = shape.window;
  const size_t height = shape.out_height / window;
  const size_t width = shape.out_width / window;
  const float scale = 1.0f / static_cast<float>(window * window);
  SampleVector* to = AsVectors(output_diff);
  SampleVector total = {};
  for (size_t y = 0; y < shape.out_height; ++y) {
    SampleVector* row = to + y * shape.out_width;
    if (y >= height * window) {
      for (size_t x = 0; x < shape.out_width; ++x) {
        row[x] = SampleVector{};
      }
      continue;
    }
    const SampleVector* from = AsVectors(pooled_diff) + y / window * width;
    const uint16_t* bits = passed + y * shape.out_width;
    for (size_t x = 0; x < width; ++x) {
      const SampleVector diff = from[x] * scale;
      for (size_t j = x * window; j < (x + 1) * window; ++j) {
        row[j] = Masked(bits[j], diff);
        total += row[j];
      }
    }
    for (size_t x = width * window; x < shape.out_width; ++x) {
      row[x] = SampleVector{};
    }
  }
  *sum = SumOfSamples(total);
}

// kTaps neighbours in a row of the kernel.
template <size_t kTaps>
void WeightTile(const SampleBlockedShape& shape, const SampleVector* input,
                const SampleVector* diff, SampleVector* sums) {
  const size_t plane = shape.out_height * shape.out_width;
  SampleVector tile[kTaps][kGroup];
  for (size_t t = 0; t < kTaps; ++t) {
    for (size_t f = 0; f < kGroup; ++f) {
      tile[t][f] = sums[t * kGroup + f];
    }
  }
  for (size_t y = 0; y < shape.out_height; ++y) {
    for (size_t x = 0; x < shape.out_width; ++x) {
      for (size_t t = 0; t < kTaps; ++t) {
        const SampleVector value = input[x + t];
        for (size_t f = 0; f < kGroup; ++f) {
          tile[t][f] += value * diff[f * plane + x];
        }
      }
    }
    input += shape.width;
    diff += shape.out_width;
  }
  for (size_t t = 0; t < kTaps; ++t) {
    for (size_t f = 0; f < kGroup; ++f) {
      sums[t * kGroup + f] = tile[t][f];
    }
  }
}

using WeightFunction = void (*)(const SampleBlockedShape&, const SampleVector*, const SampleVector*,
                                SampleVector*);
constexpr WeightFunction kWeightTiles[kTile] = {WeightTile<1>, WeightTile<2>, WeightTile<3>,
                                                WeightTile<4>, WeightTile<5>};

void BackwardWeights(const SampleBlockedShape& shape, const float* input, const float* output_diff,
                     float* sums) {
  SampleVector* to = AsVectors(sums);
  for (size_t c = 0; c < shape.channels; ++c) {
    for (size_t i = 0; i < shape.kernel; ++i) {
      const SampleVector* row = AsVectors(input) + (c * shape.height + i) * shape.width;
      for (size_t j = 0; j < shape.kernel;) {
        const size_t left = shape.kernel - j;
        const size_t taps = left <= kTile ? left : kTile;
        kWeightTiles[taps - 1](shape, row + j, AsVectors(output_diff), to);
        to += taps * kGroup;
        j += taps;
      }
    }
  }
}

// The taps that reach a pixel of the input: [begin, end) in both directions.
struct Taps {
  size_t begin;
  size_t end;
};

Taps TapsOf(size_t pixel, size_t kernel, size_t out_size) {
  return {pixel < out_size ? 0 : pixel - out_size + 1, pixel + 1 < kernel ? pixel + 1 : kernel};
}

// kPixels of the input that all have the taps `rows` and `columns`, the first
// at (y, x), each a `step` behind the one before, in the input's as in the
// output's rows.
template <size_t kPixels>
void DataTile(const SampleBlockedShape& shape, const SampleVector* diff, const float* weights,
              Taps rows, Taps columns, size_t diff_step, size_t planes, size_t input_step,
              SampleVector* input_diff) {
  SampleVector sums[kGroup][kPixels] = {};
  const size_t kernel = shape.kernel;
  for (size_t f = 0; f < shape.filters; ++f) {
    for (size_t i = rows.begin; i < rows.end; ++i) {
      const SampleVector* row = diff - i * shape.out_width;
      const float* row_weights = weights + i * kernel * kGroup;
      for (size_t j = columns.begin; j < columns.end; ++j) {
        for (size_t p = 0; p < kPixels; ++p) {
          const SampleVector value = (row - j)[p * diff_step];
          for (size_t c = 0; c < kGroup; ++c) {
            sums[c][p] += value * row_weights[j * kGroup + c];
          }
        }
      }
    }
    diff += shape.out_height * shape.out_width;
    weights += kernel * kernel * kGroup;
  }
  const size_t plane = shape.height * shape.width;
  for (size_t c = 0; c < kGroup; ++c) {
    if (c < planes) {
      for (size_t p = 0; p < kPixels; ++p) {
        input_diff[c * plane + p * input_step] = sums[c][p];
      }
    }
  }
}

using DataFunction = void (*)(const SampleBlockedShape&, const SampleVector*, const float*, Taps,
                              Taps, size_t, size_t, size_t, SampleVector*);
constexpr DataFunction kDataTiles[kTile] = {DataTile<1>, DataTile<2>, DataTile<3>, DataTile<4>,
                                            DataTile<5>};

void BackwardData(const SampleBlockedShape& shape, const float* output_diff, const float* weights,
                  size_t planes, float* input_diff) {
  // Where all taps reach: [kernel - 1, out_size). Tiles lie in a row there, and
  // in a column where only the rows have all taps; each other pixel is alone.
  const size_t first = shape.kernel - 1;
  const auto tile = [&](size_t y, size_t x, size_t pixels, bool down) {
    const size_t from = y * shape.out_width + x;
    kDataTiles[pixels - 1](
        shape, AsVectors(output_diff) + from, weights, TapsOf(y, shape.kernel, shape.out_height),
        TapsOf(x, shape.kernel, shape.out_width), down ? shape.out_width : 1, planes,
        down ? shape.width : 1, AsVectors(input_diff) + y * shape.width + x);
  };
  for (size_t y = 0; y < shape.height; ++y) {
    for (size_t x = 0; x < shape.width;) {
      const bool inside = x >= first && x < shape.out_width;
      const size_t left = shape.out_width - x;
      const size_t pixels = !inside ? 1 : left < kTile ? left : kTile;
      if (inside || y < first || y >= shape.out_height) {
        tile(y, x, pixels, false);
      }
      x += pixels;
    }
  }
  for (size_t y = first; y < shape.out_height;) {
    const size_t left = shape.out_height - y;
    const size_t pixels = left < kTile ? left : kTile;
    for (size_t x = 0; x < shape.width; ++x) {
      if (x < first || x >= shape.out_width) {
        tile(y, x, pixels, true);
      }
    }
    y += pixels;
  }
}

void SumSamples(size_t groups, const float* sums, float* totals) {
  for (size_t i = 0; i < groups; ++i) {
    totals[i] = SumOfSamples(AsVectors(sums)[i]);
  }
}

}  // namespace

const SampleBlockedLoops kSampleBlockedLoops = {Forward,         Pool,         Unpool,
                                                BackwardWeights, BackwardData, SumSamples};

}  // namespace monsoon::cpu
