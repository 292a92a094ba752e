#include "common/config/text_value.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/shorten.h"
#include "common/config/suggest.h"
#include "common/config/utf8.h"

namespace monsoon {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::io::Tokenizer;

constexpr size_t kMaxShownBytes = 40;

// Sets or adds, whichever the field's label asks for.
#define MONSOON_STORE(Type, value)                                                   \
  (field.is_repeated() ? message->GetReflection()->Add##Type(message, &field, value) \
                       : message->GetReflection()->Set##Type(message, &field, value))

void StoreDefault(const FieldDescriptor& field, Message* message) {
  if (!field.is_repeated()) {
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return MONSOON_STORE(Int32, 0);
    case FieldDescriptor::CPPTYPE_INT64:
      return MONSOON_STORE(Int64, 0);
    case FieldDescriptor::CPPTYPE_UINT32:
      return MONSOON_STORE(UInt32, 0);
    case FieldDescriptor::CPPTYPE_UINT64:
      return MONSOON_STORE(UInt64, 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return MONSOON_STORE(Double, 0);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return MONSOON_STORE(Float, 0);
    case FieldDescriptor::CPPTYPE_BOOL:
      return MONSOON_STORE(Bool, false);
    case FieldDescriptor::CPPTYPE_ENUM:
      return MONSOON_STORE(EnumValue, field.enum_type()->value(0)->number());
    case FieldDescriptor::CPPTYPE_STRING:
      return MONSOON_STORE(String, "");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

ValueError Expected(absl::string_view what, bool negative, const TextToken& token) {
  return {absl::StrCat("expected ", what, ", found ", negative ? "-" : "", DescribeToken(token)),
          ""};
}

// 007 would silently be octal.
bool IsOctal(const TextToken& token) {
  return token.type == Tokenizer::TYPE_INTEGER && token.text.size() > 1 && token.text[0] == '0' &&
         absl::ascii_isdigit(token.text[1]);
}

ValueError OctalError(const TextToken& token) {
  const size_t digits = token.text.find_first_not_of('0');
  return {absl::StrCat(token.text, " starts with 0 and would be octal"),
          absl::StrCat("write ", digits == std::string::npos ? "0" : token.text.substr(digits))};
}

// The content of a quoted literal, when it is a number someone put in quotes.
std::string QuotedNumber(const TextToken& token) {
  double value = 0;
  if (token.type != Tokenizer::TYPE_STRING || token.text.size() < 3) {
    return "";
  }
  const std::string inner = token.text.substr(1, token.text.size() - 2);
  return absl::SimpleAtod(inner, &value) && std::isfinite(value) ? inner : "";
}

ValueError NotANumber(absl::string_view what, bool negative, const TextToken& token) {
  ValueError error = Expected(what, negative, token);
  if (const std::string number = QuotedNumber(token); !number.empty()) {
    error.suggestion = absl::StrCat("write ", number, " without quotes");
  }
  return error;
}

// An integer in [-lowest, highest] as sign and magnitude.
ValueError ParseInteger(const TextToken& token, bool negative, uint64_t lowest, uint64_t highest,
                        uint64_t* magnitude) {
  if (token.type != Tokenizer::TYPE_INTEGER) {
    ValueError error = NotANumber("an integer", negative, token);
    if (token.type == Tokenizer::TYPE_FLOAT) {
      const double value = Tokenizer::ParseFloat(token.text);
      if (value == std::floor(value) && value < 1e15) {
        error.suggestion =
            absl::StrCat("write ", negative ? "-" : "", static_cast<uint64_t>(value));
      }
    }
    return error;
  }
  if (IsOctal(token)) {
    return OctalError(token);
  }
  if (!Tokenizer::ParseInteger(token.text, negative ? lowest : highest, magnitude)) {
    return {absl::StrCat(negative ? "-" : "", token.text.substr(0, kMaxShownBytes),
                         " is out of range ", lowest == 0 ? "" : "-", lowest, " .. ", highest),
            ""};
  }
  return {};
}

ValueError ParseDouble(const TextToken& token, bool negative, double largest, double* value) {
  const std::string lower = absl::AsciiStrToLower(token.text);
  if (token.IsIdentifier() && (lower == "nan" || lower == "inf" || lower == "infinity")) {
    return {absl::StrCat(negative ? "-" : "", token.text, " is not a finite number"), ""};
  }
  if (token.type != Tokenizer::TYPE_INTEGER && token.type != Tokenizer::TYPE_FLOAT) {
    return NotANumber("a number", negative, token);
  }
  if (IsOctal(token)) {
    return OctalError(token);
  }
  uint64_t integer = 0;
  if (token.type == Tokenizer::TYPE_FLOAT) {
    *value = Tokenizer::ParseFloat(token.text);
  } else if (Tokenizer::ParseInteger(token.text, std::numeric_limits<uint64_t>::max(), &integer)) {
    *value = static_cast<double>(integer);
  } else if (!absl::SimpleAtod(token.text, value)) {
    return NotANumber("a number", negative, token);
  }
  if (!std::isfinite(*value) || *value > largest) {
    return {absl::StrCat(negative ? "-" : "", token.text.substr(0, kMaxShownBytes),
                         " is too large for a finite number"),
            ""};
  }
  *value = negative ? -*value : *value;
  return {};
}

ValueError ParseBool(const TextToken& token, bool negative, bool* value) {
  const std::string& text = token.text;
  if (!negative && (text == "true" || text == "True" || text == "t" || text == "1")) {
    *value = true;
    return {};
  }
  if (!negative && (text == "false" || text == "False" || text == "f" || text == "0")) {
    *value = false;
    return {};
  }
  ValueError error = Expected("true or false", negative, token);
  if (token.IsIdentifier()) {
    error.suggestion = DidYouMean(text, {"true", "false"});
  }
  return error;
}

ValueError ParseEnum(const TextToken& token, bool negative, const EnumDescriptor& type,
                     int* number) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  const EnumValueDescriptor* value = nullptr;
  uint64_t integer = 0;
  if (token.IsIdentifier() && !negative) {
    value = type.FindValueByName(token.text);
  } else if (token.type == Tokenizer::TYPE_INTEGER && !negative &&
             Tokenizer::ParseInteger(token.text, std::numeric_limits<int>::max(), &integer)) {
    value = type.FindValueByNumber(static_cast<int>(integer));
  }
  if (value != nullptr) {
    *number = value->number();
    return {};
  }
  ValueError error = Expected(
      absl::StrCat(names.size() > 1 ? "one of " : "", absl::StrJoin(names, ", ")), negative, token);
  std::string name = token.text;
  if (token.type == Tokenizer::TYPE_STRING && name.size() > 2) {
    name = name.substr(1, name.size() - 2);
    if (type.FindValueByName(name) != nullptr) {
      error.suggestion = absl::StrCat("write ", name, " without quotes");
      return error;
    }
  }
  error.suggestion = DidYouMean(name, names);
  return error;
}

ValueError CheckString(const TextToken& token, bool negative, const std::string* decoded) {
  if (decoded == nullptr) {
    ValueError error = Expected("a string in quotes", negative, token);
    if (!negative && token.type != Tokenizer::TYPE_SYMBOL) {
      error.suggestion = absl::StrCat("write \"", token.text.substr(0, kMaxShownBytes), "\"");
    }
    return error;
  }
  if (FindInvalidUtf8(*decoded) != std::string::npos) {
    return {"the string is not valid UTF-8", ""};
  }
  if (decoded->find('\0') != std::string::npos) {
    return {"the string holds a NUL byte", ""};
  }
  return {};
}

// The switch over types; leaves the message alone on an error.
ValueError Store(const TextToken& token, bool negative, const std::string* decoded,
                 const FieldDescriptor& field, Message* message) {
  uint64_t magnitude = 0;
  double number = 0;
  bool flag = false;
  int enum_number = 0;
  ValueError error;
  // -lowest of a signed type has no positive counterpart; unsigned wraps right.
  const auto value = [&magnitude, negative] {
    return negative ? uint64_t{0} - magnitude : magnitude;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      error = ParseInteger(token, negative, uint64_t{1} << 31, INT32_MAX, &magnitude);
      if (error.message.empty()) MONSOON_STORE(Int32, static_cast<int32_t>(value()));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      error = ParseInteger(token, negative, uint64_t{1} << 63, INT64_MAX, &magnitude);
      if (error.message.empty()) MONSOON_STORE(Int64, static_cast<int64_t>(value()));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      error = ParseInteger(token, negative, 0, UINT32_MAX, &magnitude);
      if (error.message.empty()) MONSOON_STORE(UInt32, static_cast<uint32_t>(magnitude));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      error = ParseInteger(token, negative, 0, UINT64_MAX, &magnitude);
      if (error.message.empty()) MONSOON_STORE(UInt64, magnitude);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      error = ParseDouble(token, negative, std::numeric_limits<double>::max(), &number);
      if (error.message.empty()) MONSOON_STORE(Double, number);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      error = ParseDouble(token, negative, std::numeric_limits<float>::max(), &number);
      if (error.message.empty()) MONSOON_STORE(Float, static_cast<float>(number));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      error = ParseBool(token, negative, &flag);
      if (error.message.empty()) MONSOON_STORE(Bool, flag);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      error = ParseEnum(token, negative, *field.enum_type(), &enum_number);
      if (error.message.empty()) MONSOON_STORE(EnumValue, enum_number);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      error = CheckString(token, negative, decoded);
      if (error.message.empty()) MONSOON_STORE(String, *decoded);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      error = Expected("a message in { }", negative, token);
      break;
  }
  return error;
}

#undef MONSOON_STORE

}  // namespace

std::string DescribeToken(const TextToken& token) {
  if (token.type == Tokenizer::TYPE_END) {
    return "the end of the file";
  }
  if (token.type == Tokenizer::TYPE_SYMBOL) {
    return absl::StrCat("'", token.text, "'");
  }
  return Shorten(token.text, kMaxShownBytes);
}

ValueError StoreScalar(const TextToken& token, bool negative, const std::string* decoded,
                       const FieldDescriptor& field, Message* message) {
  ValueError error = Store(token, negative, decoded, field, message);
  if (!error.message.empty()) {
    StoreDefault(field, message);
  }
  return error;
}

}  // namespace monsoon
