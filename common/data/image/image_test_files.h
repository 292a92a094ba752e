// For tests: images as the bytes of PNG and JPEG files, written by the libraries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace monsoon {

// `values` are [height, width, channels] of 1 to 4 channels (grey, grey and alpha, RGB, RGBA), of
// `depth` bits: of 16, the high byte first.
std::string PngFile(uint32_t width, uint32_t height, uint32_t channels,
                    const std::vector<uint8_t>& values, int depth = 8, bool interlaced = false);

// `channels` is 1, 3 or 4 (CMYK).
std::string JpegFile(uint32_t width, uint32_t height, uint32_t channels,
                     const std::vector<uint8_t>& values, int quality = 95);

}  // namespace monsoon
