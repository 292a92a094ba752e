#include "common/data/access/quoting.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/shorten.h"
#include "common/base/utf8.h"

namespace monsoon {
namespace {

// What all of `text` is.
std::string KindOf(absl::string_view text) {
  const auto all = [&](bool (*is)(unsigned char)) {
    return std::all_of(text.begin(), text.end(),
                       [&](char c) { return is(static_cast<uint8_t>(c)); });
  };
  return all(&absl::ascii_isalpha)   ? "letter"
         : all(&absl::ascii_isdigit) ? "digit"
         : all(&absl::ascii_isprint) ? "character"
                                     : "byte";
}

}  // namespace

std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 40;
  return absl::StrCat("\"", ValidUtf8(absl::Utf8SafeCEscape(Shorten(text, kShown))), "\"");
}

std::string Content(absl::string_view text, Quoting quoting) {
  if (quoting == Quoting::kShow) {
    return Quoted(text);
  }
  return text.empty() ? "an empty text"
                      : absl::StrCat("a text of ", text.size(), " ", KindOf(text),
                                     text.size() == 1 ? "" : "s");
}

std::string ContentNumber(double value, Quoting quoting) {
  return quoting == Quoting::kShow ? absl::StrFormat("%.15g", value) : "a number";
}

}  // namespace monsoon
