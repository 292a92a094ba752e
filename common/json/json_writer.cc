#include "common/json/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace monsoon {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// Length of the valid UTF-8 sequence (RFC 3629) at the start of `text`, 0 when
// it is not one.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  // Overlong forms, surrogates and what is beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

void AppendEscaped(char c, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
  }
  if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
    char escape[8];
    snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
    *out += escape;
    return;
  }
  out->push_back(c);
}

void AppendString(absl::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      *out += kReplacement;
      text.remove_prefix(1);
    } else if (length == 1) {
      AppendEscaped(text[0], out);
      text.remove_prefix(1);
    } else {
      out->append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  out->push_back('"');
}

}  // namespace

void JsonWriter::Separate() {
  if (comma_) {
    text_.push_back(',');
  }
  comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  text_.push_back(bracket);
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  text_.push_back(bracket);
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  Separate();
  AppendString(key, &text_);
  text_.push_back(':');
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Value(absl::string_view value) {
  Separate();
  AppendString(value, &text_);
  return *this;
}

JsonWriter& JsonWriter::Value(double value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  char digits[32];
  const std::to_chars_result result = std::to_chars(digits, digits + sizeof(digits), value);
  return Raw(absl::string_view(digits, static_cast<size_t>(result.ptr - digits)));
}

JsonWriter& JsonWriter::Raw(absl::string_view json) {
  Separate();
  text_.append(json.data(), json.size());
  return *this;
}

}  // namespace monsoon
