#include "common/config/text_value.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/shorten.h"
#include "common/base/utf8.h"
#include "common/config/known_names.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::Tokenizer;

constexpr size_t kMaxShownBytes = 40;

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

// An integer in [-lowest, highest].
ValueError CheckInteger(const TextToken& token, bool negative, uint64_t lowest, uint64_t highest,
                        std::string* text) {
  uint64_t magnitude = 0;
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
  if (!Tokenizer::ParseInteger(token.text, negative ? lowest : highest, &magnitude)) {
    return {absl::StrCat(negative ? "-" : "", token.text.substr(0, kMaxShownBytes),
                         " is out of range ", lowest == 0 ? "" : "-", lowest, " .. ", highest),
            ""};
  }
  *text = absl::StrCat(negative && magnitude != 0 ? "-" : "", magnitude);
  return {};
}

ValueError CheckDouble(const TextToken& token, bool negative, double largest, std::string* text) {
  double value = 0;
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
    value = Tokenizer::ParseFloat(token.text);
  } else if (Tokenizer::ParseInteger(token.text, std::numeric_limits<uint64_t>::max(), &integer)) {
    value = static_cast<double>(integer);
  } else if (!absl::SimpleAtod(token.text, &value)) {
    return NotANumber("a number", negative, token);
  }
  if (!std::isfinite(value) || value > largest) {
    return {absl::StrCat(negative ? "-" : "", token.text.substr(0, kMaxShownBytes),
                         " is too large for a finite number"),
            ""};
  }
  *text = absl::StrFormat("%s%.17g", negative ? "-" : "", value);
  return {};
}

ValueError CheckBool(const TextToken& token, bool negative, std::string* text) {
  for (const bool value : {true, false}) {
    const std::string name = value ? "true" : "false";
    const std::string spellings[] = {name, value ? "True" : "False", name.substr(0, 1),
                                     value ? "1" : "0"};
    if (!negative && absl::c_linear_search(spellings, token.text)) {
      *text = name;
      return {};
    }
  }
  ValueError error = Expected("true or false", negative, token);
  if (token.IsIdentifier()) {
    error.suggestion = DidYouMean(token.text, {"true", "false"});
  }
  return error;
}

ValueError CheckEnum(const TextToken& token, bool negative, const EnumDescriptor& type,
                     std::string* text) {
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
    *text = value->name();
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
  error.suggestion = HintForName(type, name);
  if (error.suggestion.empty()) {
    error.suggestion = DidYouMean(name, names);
  }
  return error;
}

ValueError CheckString(const TextToken& token, bool negative, const std::string* decoded,
                       std::string* text) {
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
  *text = absl::StrCat("\"", absl::CEscape(*decoded), "\"");
  return {};
}

// Puts what TextFormat is to store into `text`.
ValueError Check(const TextToken& token, bool negative, const std::string* decoded,
                 const FieldDescriptor& field, std::string* text) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckInteger(token, negative, uint64_t{1} << 31, INT32_MAX, text);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckInteger(token, negative, uint64_t{1} << 63, INT64_MAX, text);
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckInteger(token, negative, 0, UINT32_MAX, text);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckInteger(token, negative, 0, UINT64_MAX, text);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckDouble(token, negative, std::numeric_limits<double>::max(), text);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return CheckDouble(token, negative, std::numeric_limits<float>::max(), text);
    case FieldDescriptor::CPPTYPE_BOOL:
      return CheckBool(token, negative, text);
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(token, negative, *field.enum_type(), text);
    case FieldDescriptor::CPPTYPE_STRING:
      return CheckString(token, negative, decoded, text);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return Expected("a message in { }", negative, token);
}

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
  std::string text;
  const ValueError error = Check(token, negative, decoded, field, &text);
  if (!error.message.empty()) {
    if (!field.is_repeated()) {
      return error;
    }
    text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? "\"\"" : "0";
  }
  CHECK(TextFormat::ParseFieldValueFromString(text, &field, message));
  return error;
}

}  // namespace monsoon
