#include "common/data/number_text.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// What is not below rounds to float32's infinity.
constexpr double kFloatEnd = 0x1.ffffffp+127;

}  // namespace

absl::StatusOr<float> ParseFloat(absl::string_view text, Quoting quoting) {
  const absl::string_view digits = absl::StripAsciiWhitespace(text);
  const char* const end = digits.data() + digits.size();
  double wide = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, wide);
  if (error == std::errc::invalid_argument || stop != end) {
    return absl::InvalidArgumentError(absl::StrCat(Content(text, quoting), " is not a number"));
  }
  if (!std::isfinite(wide)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Content(text, quoting), " is not a finite number"));
  }
  if (error == std::errc::result_out_of_range || std::abs(wide) >= kFloatEnd) {
    return absl::InvalidArgumentError(
        absl::StrCat(Content(text, quoting), " is beyond what float32 holds"));
  }
  return static_cast<float>(wide);
}

bool ParseWholeNumber(absl::string_view text, uint32_t* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

bool IsFloat(absl::string_view text) { return ParseFloat(text, Quoting::kDescribe).ok(); }

}  // namespace monsoon
