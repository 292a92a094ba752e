#include "worker/backend/cpu/sample_blocked_loops.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace monsoon::SIMD_NAMESPACE {
namespace {

using cpu::kBlockSamples;
using cpu::kGroup;
using cpu::SampleBlockedLoops;
using cpu::SampleBlockedShape;

// Floats of one register, and the widest tile of pixels: with a group of filters it
// fills 25 of 32 registers, or 10 of 16 and leaves room for its operands.
#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
constexpr size_t kTile = 5;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
constexpr size_t kTile = 2;
#else
constexpr size_t kLanes = 4;
constexpr size_t kTile = 2;
#endif
constexpr size_t kParts = kBlockSamples / kLanes;

// May be part of any array of floats.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), may_alias));
typedef int IntLanes __attribute__((vector_size(kLanes * sizeof(int))));
typedef float FourLanes __attribute__((vector_size(4 * sizeof(float)), may_alias));

// One register's part of each block of samples in an array.
struct Values {
  const Lanes* at;

  const Lanes& operator[](size_t i) const { return at[i * kParts]; }
  Values operator+(size_t blocks) const { return {at + blocks * kParts}; }
  Values operator-(size_t blocks) const { return {at - blocks * kParts}; }
};
struct Results {
  Lanes* at;

  Lanes& operator[](size_t i) const { return at[i * kParts]; }
  Results operator+(size_t blocks) const { return {at + blocks * kParts}; }
};

Values Part(const float* values, size_t part) {
  return {reinterpret_cast<const Lanes*>(values) + part};
}
Results Part(float* values, size_t part) { return {reinterpret_cast<Lanes*>(values) + part}; }

// Where a value is not less than or equal to zero: NaN counts.
unsigned Passing(Lanes values) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(values), _mm512_setzero_ps(), _CMP_NLE_UQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(
      _mm256_cmp_ps(reinterpret_cast<__m256>(values), _mm256_setzero_ps(), _CMP_NLE_UQ)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(
      _mm_movemask_ps(_mm_cmpnle_ps(reinterpret_cast<__m128>(values), _mm_setzero_ps())));
#else
  unsigned bits = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    bits |= values[i] <= 0 ? 0u : 1u << i;
  }
  return bits;
#endif
}

// Only the lanes whose bits are set; others may stand above them.
Lanes Masked(unsigned bits, Lanes values) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mov_ps(static_cast<uint16_t>(bits), reinterpret_cast<__m512>(values)));
#else
  IntLanes bit_of_lane;
  for (size_t i = 0; i < kLanes; ++i) {
    bit_of_lane[i] = 1 << i;
  }
  const IntLanes mask = ((static_cast<int>(bits) - IntLanes{}) & bit_of_lane) != 0;
  return reinterpret_cast<Lanes>(reinterpret_cast<IntLanes>(values) & mask);
#endif
}

// Of kBlockSamples values, by halves at every level: eight sums, four, two, one.
float SumOfSamples(const void* samples) {
  const FourLanes* values = static_cast<const FourLanes*>(samples);
  const FourLanes four = (values[0] + values[2]) + (values[1] + values[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// kPixels neighbours in a row of the output, of kGroup filters.
template <size_t kPixels>
void ForwardTile(const SampleBlockedShape& shape, Values input, const float* weights,
                 const float* bias, Results output) {
  Lanes sums[kGroup][kPixels];
  for (size_t f = 0; f < kGroup; ++f) {
    for (size_t p = 0; p < kPixels; ++p) {
      sums[f][p] = bias[f] - Lanes{};
    }
  }
  for (size_t c = 0; c < shape.channels; ++c) {
    for (size_t i = 0; i < shape.kernel; ++i) {
      const Values row = input + (c * shape.height + i) * shape.width;
      for (size_t j = 0; j < shape.kernel; ++j) {
        for (size_t p = 0; p < kPixels; ++p) {
          const Lanes value = row[j + p];
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

using ForwardFunction = void (*)(const SampleBlockedShape&, Values, const float*, const float*,
                                 Results);
constexpr ForwardFunction kForwardTiles[] = {ForwardTile<1>, ForwardTile<2>,
#if defined(__AVX512F__)
                                             ForwardTile<3>, ForwardTile<4>, ForwardTile<5>
#endif
};
static_assert(sizeof(kForwardTiles) / sizeof(kForwardTiles[0]) == kTile);

void Forward(const SampleBlockedShape& shape, const float* input, const float* weights,
             const float* bias, float* output) {
  for (size_t part = 0; part < kParts; ++part) {
    for (size_t y = 0; y < shape.out_height; ++y) {
      for (size_t x = 0; x < shape.out_width;) {
        const size_t left = shape.out_width - x;
        // No tile of one pixel behind a full one, where tiles are wide enough for that.
        const bool uneven = kTile > 2 && left == kTile + 1;
        const size_t pixels = left <= kTile ? left : uneven ? kTile - 2 : kTile;
        kForwardTiles[pixels - 1](shape, Part(input, part) + (y * shape.width + x), weights, bias,
                                  Part(output, part) + (y * shape.out_width + x));
        x += pixels;
      }
    }
  }
}

void Pool(const SampleBlockedShape& shape, const float* output, float* pooled, uint16_t* passed) {
  const size_t window = shape.window;
  const size_t height = shape.out_height / window;
  const size_t width = shape.out_width / window;
  const float scale = 1.0f / static_cast<float>(window * window);
  Lanes* to = reinterpret_cast<Lanes*>(pooled);
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      Lanes sums[kParts] = {};
      for (size_t i = 0; i < window; ++i) {
        const size_t row = (y * window + i) * shape.out_width + x * window;
        for (size_t j = 0; j < window; ++j) {
          unsigned word = 0;
          for (size_t part = 0; part < kParts; ++part) {
            const Lanes value = Part(output, part)[row + j];
            const unsigned bits = shape.relu ? Passing(value) : (1u << kLanes) - 1;
            word |= bits << (part * kLanes);
            sums[part] += Masked(bits, value);
          }
          passed[row + j] = static_cast<uint16_t>(word);
        }
      }
      for (size_t part = 0; part < kParts; ++part) {
        *to++ = sums[part] * scale;
      }
    }
  }
}

// Zero in the row's vectors [begin, end) of a plane.
void Clear(float* row, size_t begin, size_t end) {
  for (size_t i = begin * kBlockSamples; i < end * kBlockSamples; ++i) {
    row[i] = 0;
  }
}

void Unpool(const SampleBlockedShape& shape, const float* pooled_diff, const uint16_t* passed,
            float* output_diff, float* sum) {
  const size_t window = shape.window;
  const size_t height = shape.out_height / window;
  const size_t width = shape.out_width / window;
  const float scale = 1.0f / static_cast<float>(window * window);
  Lanes totals[kParts] = {};
  for (size_t y = 0; y < shape.out_height; ++y) {
    float* row = output_diff + y * shape.out_width * kBlockSamples;
    if (y >= height * window) {
      Clear(row, 0, shape.out_width);
      continue;
    }
    const float* from = pooled_diff + y / window * width * kBlockSamples;
    const uint16_t* bits = passed + y * shape.out_width;
    for (size_t x = 0; x < width; ++x) {
      for (size_t part = 0; part < kParts; ++part) {
        const Lanes diff = Part(from, part)[x] * scale;
        const Results to = Part(row, part);
        for (size_t j = x * window; j < (x + 1) * window; ++j) {
          to[j] = Masked(static_cast<unsigned>(bits[j]) >> (part * kLanes), diff);
          totals[part] += to[j];
        }
      }
    }
    Clear(row, width * window, shape.out_width);
  }
  *sum = SumOfSamples(totals);
}

// kTaps neighbours in a row of the kernel.
template <size_t kTaps>
void WeightTile(const SampleBlockedShape& shape, Values input, Values diff, Results sums) {
  const size_t plane = shape.out_height * shape.out_width;
  Lanes tile[kTaps][kGroup];
  for (size_t t = 0; t < kTaps; ++t) {
    for (size_t f = 0; f < kGroup; ++f) {
      tile[t][f] = sums[t * kGroup + f];
    }
  }
  for (size_t y = 0; y < shape.out_height; ++y) {
    for (size_t x = 0; x < shape.out_width; ++x) {
      for (size_t t = 0; t < kTaps; ++t) {
        const Lanes value = input[x + t];
        for (size_t f = 0; f < kGroup; ++f) {
          tile[t][f] += value * diff[f * plane + x];
        }
      }
    }
    input = input + shape.width;
    diff = diff + shape.out_width;
  }
  for (size_t t = 0; t < kTaps; ++t) {
    for (size_t f = 0; f < kGroup; ++f) {
      sums[t * kGroup + f] = tile[t][f];
    }
  }
}

using WeightFunction = void (*)(const SampleBlockedShape&, Values, Values, Results);
constexpr WeightFunction kWeightTiles[] = {WeightTile<1>, WeightTile<2>,
#if defined(__AVX512F__)
                                           WeightTile<3>, WeightTile<4>, WeightTile<5>
#endif
};

void BackwardWeights(const SampleBlockedShape& shape, const float* input, const float* output_diff,
                     float* sums) {
  for (size_t part = 0; part < kParts; ++part) {
    Results to = Part(sums, part);
    for (size_t c = 0; c < shape.channels; ++c) {
      for (size_t i = 0; i < shape.kernel; ++i) {
        const Values row = Part(input, part) + (c * shape.height + i) * shape.width;
        for (size_t j = 0; j < shape.kernel;) {
          const size_t left = shape.kernel - j;
          const size_t taps = left <= kTile ? left : kTile;
          kWeightTiles[taps - 1](shape, row + j, Part(output_diff, part), to);
          to = to + taps * kGroup;
          j += taps;
        }
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
void DataTile(const SampleBlockedShape& shape, Values diff, const float* weights, Taps rows,
              Taps columns, size_t diff_step, size_t planes, size_t input_step,
              Results input_diff) {
  Lanes sums[kGroup][kPixels] = {};
  const size_t kernel = shape.kernel;
  for (size_t f = 0; f < shape.filters; ++f) {
    for (size_t i = rows.begin; i < rows.end; ++i) {
      const Values row = diff - i * shape.out_width;
      const float* row_weights = weights + i * kernel * kGroup;
      for (size_t j = columns.begin; j < columns.end; ++j) {
        for (size_t p = 0; p < kPixels; ++p) {
          const Lanes value = (row - j)[p * diff_step];
          for (size_t c = 0; c < kGroup; ++c) {
            sums[c][p] += value * row_weights[j * kGroup + c];
          }
        }
      }
    }
    diff = diff + shape.out_height * shape.out_width;
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

using DataFunction = void (*)(const SampleBlockedShape&, Values, const float*, Taps, Taps, size_t,
                              size_t, size_t, Results);
constexpr DataFunction kDataTiles[] = {DataTile<1>, DataTile<2>,
#if defined(__AVX512F__)
                                       DataTile<3>, DataTile<4>, DataTile<5>
#endif
};

void BackwardDataPart(const SampleBlockedShape& shape, Values output_diff, const float* weights,
                      size_t planes, Results input_diff) {
  // Where all taps reach: [kernel - 1, out_size). Tiles lie in a row there, and
  // in a column where only the rows have all taps; each other pixel is alone.
  const size_t first = shape.kernel - 1;
  const auto tile = [&](size_t y, size_t x, size_t pixels, bool down) {
    const size_t from = y * shape.out_width + x;
    kDataTiles[pixels - 1](shape, output_diff + from, weights,
                           TapsOf(y, shape.kernel, shape.out_height),
                           TapsOf(x, shape.kernel, shape.out_width), down ? shape.out_width : 1,
                           planes, down ? shape.width : 1, input_diff + (y * shape.width + x));
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

void BackwardData(const SampleBlockedShape& shape, const float* output_diff, const float* weights,
                  size_t planes, float* input_diff) {
  for (size_t part = 0; part < kParts; ++part) {
    BackwardDataPart(shape, Part(output_diff, part), weights, planes, Part(input_diff, part));
  }
}

void SumSamples(size_t groups, const float* sums, float* totals) {
  for (size_t i = 0; i < groups; ++i) {
    totals[i] = SumOfSamples(sums + i * kBlockSamples);
  }
}

}  // namespace

const SampleBlockedLoops kSampleBlockedLoops = {Forward,         Pool,         Unpool,
                                                BackwardWeights, BackwardData, SumSamples};

}  // namespace monsoon::SIMD_NAMESPACE
