#include "common/base/utf8.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// Length of the valid sequence at the start of `text`, 0 when there is none.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [text](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80           ? 1
                        : (first >> 5) == 0x06 ? 2
                        : (first >> 4) == 0x0e ? 3
                        : (first >> 3) == 0x1e ? 4
                                               : 0;
  if (length <= 1 || length > text.size()) {
    return length == 1 ? 1 : 0;
  }
  uint32_t code = first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= kLeast[length] && code <= 0x10ffff && !surrogate ? length : 0;
}

}  // namespace

size_t FindInvalidUtf8(absl::string_view text, size_t start) {
  while (start < text.size()) {
    const size_t length = SequenceLength(text.substr(start));
    if (length == 0) {
      return start;
    }
    start += length;
  }
  return absl::string_view::npos;
}

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  size_t start = 0;
  for (size_t at; (at = FindInvalidUtf8(text, start)) != absl::string_view::npos; start = at + 1) {
    absl::StrAppend(&valid, text.substr(start, at - start), "\\x",
                    absl::Hex(static_cast<uint8_t>(text[at]), absl::kZeroPad2));
  }
  absl::StrAppend(&valid, text.substr(start));
  return valid;
}

}  // namespace monsoon
