// A CSV file: it is refused, or its rows written again with quotes are read as the same, however
// the file is cut in two.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/data/csv_parser.h"

namespace monsoon {
namespace {

using Rows = std::vector<std::vector<std::string>>;

bool ParseCut(absl::string_view text, size_t cut, Rows* rows) {
  const auto visit = [&](std::span<const absl::string_view> fields, uint64_t) {
    rows->emplace_back(fields.begin(), fields.end());
    return absl::OkStatus();
  };
  CsvParser parser("fuzz", ',');
  return parser.Parse(text.substr(0, cut), visit).ok() &&
         parser.Parse(text.substr(cut), visit).ok() && parser.Finish(visit).ok();
}

std::string Written(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) {
    const char* separator = "";
    for (const std::string& field : row) {
      absl::StrAppend(&text, separator, "\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
      separator = ",";
    }
    absl::StrAppend(&text, "\r\n");
  }
  return text;
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  monsoon::Rows rows, cut, again;
  const bool right = monsoon::ParseCut(text, size, &rows);
  CHECK_EQ(monsoon::ParseCut(text, size / 2, &cut), right);
  CHECK(cut == rows);
  if (right) {
    const std::string written = monsoon::Written(rows);
    CHECK(monsoon::ParseCut(written, written.size(), &again));
    CHECK(again == rows);
  }
  return 0;
}
