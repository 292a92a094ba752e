#include "common/json/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "common/base/utf8.h"

namespace monsoon {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

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
  size_t invalid = FindInvalidUtf8(text);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == invalid) {
      *out += kReplacement;
      invalid = FindInvalidUtf8(text, i + 1);
    } else {
      AppendEscaped(text[i], out);
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
