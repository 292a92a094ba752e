#include "common/data/image/image_test_files.h"

// jpeglib.h uses FILE, so the standard's header comes first.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <png.h>

#include <cstdlib>

#include "common/base/check.h"

namespace monsoon {

std::string PngFile(uint32_t width, uint32_t height, uint32_t channels,
                    const std::vector<uint8_t>& values, int depth, bool interlaced) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  const size_t row_bytes = size_t{width} * channels * static_cast<size_t>(depth) / 8;
  CHECK_EQ(values.size(), row_bytes * height);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(bytes), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, width, height, depth, kTypes[channels - 1],
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
               PNG_FILTER_TYPE_BASE);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (uint32_t y = 0; y < height; ++y) {
    rows.push_back(const_cast<png_bytep>(values.data()) + y * row_bytes);
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string JpegFile(uint32_t width, uint32_t height, uint32_t channels,
                     const std::vector<uint8_t>& values, int quality) {
  const size_t row_bytes = size_t{width} * channels;
  CHECK_EQ(values.size(), row_bytes * height);
  jpeg_compress_struct state{};
  jpeg_error_mgr errors;
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &bytes, &size);
  state.image_width = width;
  state.image_height = height;
  state.input_components = static_cast<int>(channels);
  state.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, quality, TRUE);
  jpeg_start_compress(&state, TRUE);
  while (state.next_scanline < height) {
    JSAMPROW row = const_cast<JSAMPROW>(values.data()) + state.next_scanline * row_bytes;
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&state);
  std::free(bytes);
  return file;
}

}  // namespace monsoon
