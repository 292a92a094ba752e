// PNG and JPEG files as bytes, by libpng and libjpeg.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace monsoon {

// A picture of more is refused before it is decoded: it would take a GiB while it is.
inline constexpr uint64_t kMaxImagePixels = uint64_t{1} << 26;

struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 0;        // 1 (grey) or 3 (red, green, blue)
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// The picture in `file`, the whole content of a file; which of the two formats it is, its first
// bytes say. Alpha is laid over black, 16 bits become 8, palettes are resolved, a file's
// gamma, colour profile and EXIF orientation count for nothing. InvalidArgument or DataLoss with
// `path`: another format, CMYK, too large, cut short or damaged (even where the library would
// only warn of it).
absl::StatusOr<Image> DecodeImage(std::span<const uint8_t> file, const std::string& path);

// In image_png.cc and image_jpeg.cc; the same for files of one format.
absl::StatusOr<Image> DecodePng(std::span<const uint8_t> file, const std::string& path);
absl::StatusOr<Image> DecodeJpeg(std::span<const uint8_t> file, const std::string& path);
// InvalidArgument above kMaxImagePixels.
absl::Status CheckImageSize(uint32_t width, uint32_t height, const std::string& path);

}  // namespace monsoon
