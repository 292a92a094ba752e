// JsonWriter: builds one JSON value (RFC 8259) in UTF-8, compact, members in
// the order they are written. Bytes that are not UTF-8 become U+FFFD, and
// numbers that are not finite become null, so the result always parses.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Member("job", "lenet-1");
//   json.Key("shape").BeginArray().Value(20).Value(1).EndArray();
//   json.EndObject();
//   json.text()  // {"job":"lenet-1","shape":[20,1]}
//
// Thread safety: none.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }

  JsonWriter& Key(absl::string_view key);

  JsonWriter& Null() { return Raw("null"); }
  JsonWriter& Value(absl::string_view value);
  JsonWriter& Value(const std::string& value) { return Value(absl::string_view(value)); }
  JsonWriter& Value(const char* value) { return Value(absl::string_view(value)); }
  // The shortest digits that read back as the same double.
  JsonWriter& Value(double value);
  JsonWriter& Value(bool value) { return Raw(value ? "true" : "false"); }
  template <std::integral T>
  JsonWriter& Value(T value) {
    return Raw(std::to_string(value));
  }
  // null when there is none.
  template <typename T>
  JsonWriter& Value(const std::optional<T>& value) {
    return value.has_value() ? Value(*value) : Null();
  }
  // A complete JSON value made elsewhere.
  JsonWriter& Raw(absl::string_view json);

  template <typename T>
  JsonWriter& Member(absl::string_view key, const T& value) {
    return Key(key).Value(value);
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string text_;
  // Whether a comma must come before the next key or value.
  bool comma_ = false;
};

}  // namespace monsoon
