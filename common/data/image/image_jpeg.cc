// jpeglib.h uses FILE, so the standard's header comes first.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <jerror.h>

#include <csetjmp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/image/image_decoder.h"

namespace monsoon {
namespace {

// More scans than any encoder writes: a small progressive file can ask for years.
constexpr int kMaxScans = 500;

// libjpeg's errors jump: the functions that they jump out of have no objects with destructors.
struct Errors : jpeg_error_mgr {
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "";
};

void OnError(j_common_ptr state) {
  auto* const errors = static_cast<Errors*>(state->err);
  errors->format_message(state, errors->text);
  std::longjmp(errors->jump, 1);
}

// libjpeg goes on with grey where data is missing or wrong; what trains must not.
void OnMessage(j_common_ptr state, int level) {
  const int code = state->err->msg_code;
  const bool harmless =
      code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
  if (level < 0 && !harmless) {
    OnError(state);
  }
}

void OnProgress(j_common_ptr state) {
  if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number > kMaxScans) {
    auto* const errors = static_cast<Errors*>(state->err);
    std::snprintf(errors->text, sizeof(errors->text), "more than %d scans", kMaxScans);
    std::longjmp(errors->jump, 1);
  }
}

struct Jpeg {
  Jpeg() {
    state.err = jpeg_std_error(&errors);
    errors.error_exit = &OnError;
    errors.emit_message = &OnMessage;
    progress.progress_monitor = &OnProgress;
  }
  ~Jpeg() {
    if (created) {
      jpeg_destroy_decompress(&state);
    }
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  jpeg_decompress_struct state{};
  Errors errors;
  jpeg_progress_mgr progress{};
  bool created = false;
};

bool ReadHeader(Jpeg* jpeg, const uint8_t* file, size_t size) {
  if (setjmp(jpeg->errors.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&jpeg->state);
  jpeg->created = true;
  jpeg->state.progress = &jpeg->progress;
  jpeg_mem_src(&jpeg->state, file, size);
  jpeg_read_header(&jpeg->state, TRUE);
  return true;
}

bool ReadPixels(Jpeg* jpeg, uint8_t* out, size_t row_bytes) {
  if (setjmp(jpeg->errors.jump) != 0) {
    return false;
  }
  jpeg_start_decompress(&jpeg->state);
  while (jpeg->state.output_scanline < jpeg->state.output_height) {
    JSAMPROW row = out + jpeg->state.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg->state, &row, 1);
  }
  jpeg_finish_decompress(&jpeg->state);
  return true;
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(std::span<const uint8_t> file, const std::string& path) {
  Jpeg jpeg;
  const auto damaged = [&] {
    return absl::DataLossError(absl::StrCat(path, ": not a whole JPEG file: ", jpeg.errors.text));
  };
  if (!ReadHeader(&jpeg, file.data(), file.size())) {
    return damaged();
  }
  jpeg_decompress_struct& state = jpeg.state;
  RETURN_IF_ERROR(CheckImageSize(state.image_width, state.image_height, path));
  if (state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a JPEG file of CMYK, the colours of printers: write it as RGB"));
  }
  const bool grey = state.jpeg_color_space == JCS_GRAYSCALE;
  if (!grey && state.num_components != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a JPEG file of ", state.num_components, " colour components"));
  }
  state.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  Image image{.width = state.image_width, .height = state.image_height, .channels = grey ? 1u : 3u};
  const size_t row_bytes = size_t{image.width} * image.channels;
  image.pixels.resize(row_bytes * image.height);
  if (!ReadPixels(&jpeg, image.pixels.data(), row_bytes)) {
    return damaged();
  }
  return image;
}

}  // namespace monsoon
