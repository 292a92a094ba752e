#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/image/image_decoder.h"

namespace monsoon {
namespace {

// What libpng's calls come back with. Its errors jump: the functions that they jump out of have
// no objects with destructors.
struct Reader {
  std::span<const uint8_t> file;
  size_t at = 0;
  char error[128] = "";
};

void OnError(png_structp png, png_const_charp message) {
  auto* const reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->error, message, sizeof(reader->error) - 1);
  png_longjmp(png, 1);
}

// Chunks that do not matter here may be wrong.
void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep out, size_t size) {
  auto* const reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (size > reader->file.size() - reader->at) {
    png_error(png, "the file is cut short");
  }
  std::memcpy(out, reader->file.data() + reader->at, size);
  reader->at += size;
}

struct Png {
  explicit Png(Reader* reader)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, &OnError, &OnWarning)),
        info(png == nullptr ? nullptr : png_create_info_struct(png)) {}
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  png_structp png;
  png_infop info;
};

bool ReadInfo(png_structp png, png_infop info, Reader* reader) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_read_fn(png, reader, &OnRead);
  png_set_user_limits(png, 1u << 26, 1u << 26);
  png_read_info(png, info);
  return true;
}

// Sets what turns any PNG into 8-bit grey or RGB, with alpha where it has transparency.
bool Transform(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool ReadRows(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

// [pixels, channels + 1] to [pixels, channels]: alpha over black, rounded.
void LayOverBlack(size_t pixels, size_t channels, std::vector<uint8_t>* values) {
  size_t out = 0;
  for (size_t i = 0; i < pixels; ++i) {
    const size_t begin = i * (channels + 1);
    const unsigned alpha = (*values)[begin + channels];
    for (size_t c = 0; c < channels; ++c) {
      (*values)[out++] = static_cast<uint8_t>(((*values)[begin + c] * alpha + 127) / 255);
    }
  }
  values->resize(out);
}

}  // namespace

absl::StatusOr<Image> DecodePng(std::span<const uint8_t> file, const std::string& path) {
  Reader reader{.file = file};
  const Png state(&reader);
  if (state.png == nullptr || state.info == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": libpng has no memory"));
  }
  const auto damaged = [&] {
    return absl::DataLossError(
        absl::StrCat(path, ": not a whole PNG file: ", reader.error, " (byte ", reader.at, ")"));
  };
  if (!ReadInfo(state.png, state.info, &reader)) {
    return damaged();
  }
  Image image{.width = png_get_image_width(state.png, state.info),
              .height = png_get_image_height(state.png, state.info)};
  RETURN_IF_ERROR(CheckImageSize(image.width, image.height, path));
  if (!Transform(state.png, state.info)) {
    return damaged();
  }
  const size_t stored_channels = png_get_channels(state.png, state.info);
  const size_t row_bytes = png_get_rowbytes(state.png, state.info);
  image.pixels.resize(row_bytes * image.height);
  std::vector<png_bytep> rows(image.height);
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = image.pixels.data() + y * row_bytes;
  }
  if (!ReadRows(state.png, rows.data())) {
    return damaged();
  }
  const bool alpha = stored_channels % 2 == 0;
  image.channels = static_cast<uint32_t>(stored_channels - (alpha ? 1 : 0));
  if (alpha) {
    LayOverBlack(size_t{image.width} * image.height, image.channels, &image.pixels);
  }
  return image;
}

}  // namespace monsoon
