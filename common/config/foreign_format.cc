#include "common/config/foreign_format.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace monsoon {
namespace {

constexpr char kExample[] = "write it as in  name: \"mine\"  block { field: 1 }";

}  // namespace

std::optional<Diagnostic> ForeignFormat(const std::string& file, const std::string& contents) {
  const auto told = [&file](const std::string& message, const std::string& suggestion) {
    return Diagnostic{file, 1, 1, "", message, suggestion};
  };
  if (absl::StartsWith(contents, "\xef\xbb\xbf")) {
    return told("the file begins with a byte order mark (EF BB BF)",
                "save it as UTF-8 without one");
  }
  if (absl::StartsWith(contents, "\xff\xfe") || absl::StartsWith(contents, "\xfe\xff")) {
    return told("the file is UTF-16", "save it as UTF-8 without a byte order mark");
  }
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(contents);
  if (absl::StartsWith(text, "{") || absl::StartsWith(text, "[")) {
    return told(
        "this is JSON, and the file is protobuf text: no braces around all of it, no "
        "quotes around names, no commas needed",
        kExample);
  }
  if (absl::StartsWith(text, "---") || absl::StartsWith(text, "%YAML")) {
    return told("this is YAML, and the file is protobuf text", kExample);
  }
  if (absl::StartsWith(text, "<")) {
    return told("this is XML or HTML, and the file is protobuf text", kExample);
  }
  return std::nullopt;
}

}  // namespace monsoon
