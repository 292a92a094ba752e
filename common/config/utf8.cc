#include "common/config/utf8.h"

#include <cstdint>

namespace monsoon {
namespace {

// Length of the valid sequence at `i`, 0 when there is none.
size_t SequenceLength(const std::string& text, size_t i) {
  const auto byte = [&text](size_t at) -> uint8_t {
    return at < text.size() ? static_cast<uint8_t>(text[at]) : 0;
  };
  const uint8_t first = byte(i);
  if (first < 0x80) {
    return 1;
  }
  uint8_t low = 0x80, high = 0xbf;  // of the second byte
  size_t length = 0;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    low = first == 0xe0 ? 0xa0 : low;
    high = first == 0xed ? 0x9f : high;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    low = first == 0xf0 ? 0x90 : low;
    high = first == 0xf4 ? 0x8f : high;
  } else {
    return 0;
  }
  if (byte(i + 1) < low || byte(i + 1) > high) {
    return 0;
  }
  for (size_t k = 2; k < length; ++k) {
    if (byte(i + k) < 0x80 || byte(i + k) > 0xbf) {
      return 0;
    }
  }
  return length;
}

}  // namespace

size_t FindInvalidUtf8(const std::string& text, size_t start) {
  for (size_t i = start; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    if (length == 0) {
      return i;
    }
    i += length;
  }
  return std::string::npos;
}

}  // namespace monsoon
