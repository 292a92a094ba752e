// An image file: it is refused, or has the pixels that it says, and fits any model.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/data/image/image_decoder.h"
#include "common/data/image/image_fit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = monsoon::DecodeImage(std::span(data, size), "fuzz");
  if (!image.ok()) {
    return 0;
  }
  CHECK_GT(image->width, 0u);
  CHECK_GT(image->height, 0u);
  CHECK(image->channels == 1 || image->channels == 3);
  CHECK_LE(uint64_t{image->width} * image->height, monsoon::kMaxImagePixels);
  CHECK_EQ(image->pixels.size(), size_t{image->width} * image->height * image->channels);
  std::vector<uint8_t> out(3 * 5 * 7);
  monsoon::FitImage(*image, 3, 5, 7, out);
  return 0;
}
