#include "common/base/shorten.h"

#include "absl/strings/str_cat.h"

namespace monsoon {

std::string Shorten(absl::string_view text, size_t most) {
  if (text.size() <= most) {
    return std::string(text);
  }
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), "...");
}

}  // namespace monsoon
