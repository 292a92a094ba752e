#include "common/data/image/image_fit.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace monsoon {
namespace {

struct Cut {
  uint64_t begin = 0;
  uint64_t size = 0;
};

// Of `size` pixels those in the middle that are `share` / `of` of them, rounded.
Cut Middle(uint64_t size, uint64_t share, uint64_t of) {
  const uint64_t kept = std::clamp<uint64_t>((size * share + of / 2) / of, 1, size);
  return {(size - kept) / 2, kept};
}

// Pixel `out` of `outs` covers [out * size, (out + 1) * size) in units of which a pixel of the
// cut is `outs` long.
struct Cover {
  uint64_t first = 0;
  uint64_t last = 0;

  Cover(uint64_t out, uint64_t outs, uint64_t size)
      : first(out * size / outs), last(((out + 1) * size - 1) / outs) {}
};

// How much of pixel `i` of the cut that is.
uint64_t Overlap(uint64_t i, uint64_t out, uint64_t outs, uint64_t size) {
  return std::min((i + 1) * outs, (out + 1) * size) - std::max(i * outs, out * size);
}

uint8_t Value(const Image& image, size_t pixel, uint32_t channel, uint32_t channels) {
  const uint8_t* const at = image.pixels.data() + pixel * image.channels;
  if (channels == image.channels) {
    return at[channel];
  }
  return channels == 3
             ? at[0]
             : static_cast<uint8_t>((299 * at[0] + 587 * at[1] + 114 * at[2] + 500) / 1000);
}

}  // namespace

void FitImage(const Image& image, uint32_t channels, uint32_t height, uint32_t width,
              std::span<uint8_t> out) {
  CHECK_EQ(out.size(), size_t{channels} * height * width);
  CHECK_EQ(image.pixels.size(), size_t{image.width} * image.height * image.channels);
  Cut x{0, image.width};
  Cut y{0, image.height};
  const uint64_t wide = uint64_t{image.width} * height;
  const uint64_t high = uint64_t{image.height} * width;
  if (wide > high) {
    x = Middle(image.width, high, wide);
  } else {
    y = Middle(image.height, wide, high);
  }
  // Rows first: the sums over a row's pixels, for each pixel that it gives, times `width`.
  std::vector<uint64_t> sums(width);
  std::vector<uint64_t> areas(width);
  size_t at = 0;
  for (uint32_t c = 0; c < channels; ++c) {
    for (uint32_t v = 0; v < height; ++v) {
      std::fill(areas.begin(), areas.end(), 0);
      const Cover rows(v, height, y.size);
      for (uint64_t row = rows.first; row <= rows.last; ++row) {
        std::fill(sums.begin(), sums.end(), 0);
        const size_t begin = (y.begin + row) * image.width + x.begin;
        for (uint32_t u = 0; u < width; ++u) {
          const Cover columns(u, width, x.size);
          for (uint64_t column = columns.first; column <= columns.last; ++column) {
            sums[u] +=
                Overlap(column, u, width, x.size) * Value(image, begin + column, c, channels);
          }
        }
        const uint64_t share = Overlap(row, v, height, y.size);
        for (uint32_t u = 0; u < width; ++u) {
          areas[u] += share * sums[u];
        }
      }
      const uint64_t whole = x.size * y.size;
      for (uint32_t u = 0; u < width; ++u) {
        out[at++] = static_cast<uint8_t>((areas[u] + whole / 2) / whole);
      }
    }
  }
}

}  // namespace monsoon
