#include "common/data/image/image_decoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint8_t kJpeg[] = {0xff, 0xd8, 0xff};

bool BeginsWith(std::span<const uint8_t> file, std::span<const uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

}  // namespace

absl::StatusOr<Image> DecodeImage(std::span<const uint8_t> file, const std::string& path) {
  if (BeginsWith(file, kPng)) {
    return DecodePng(file, path);
  }
  if (BeginsWith(file, kJpeg)) {
    return DecodeJpeg(file, path);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", file.empty() ? "the file is empty" : "its first bytes are",
                   file.empty() ? "" : " neither PNG's nor JPEG's"));
}

absl::Status CheckImageSize(uint32_t width, uint32_t height, const std::string& path) {
  if (uint64_t{width} * height > kMaxImagePixels) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", width, " x ", height,
                                                   " pixels are more than the ", kMaxImagePixels,
                                                   " that are decoded"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
