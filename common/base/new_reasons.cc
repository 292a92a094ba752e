#include "common/base/new_reasons.h"

#include "absl/strings/ascii.h"

namespace monsoon {
namespace {

// Whoever finds more reasons than that is told some of them again.
constexpr size_t kMostRemembered = 32;

// A run of digits becomes one.
std::string WithoutNumbers(absl::string_view reason) {
  std::string text;
  for (const char c : reason) {
    if (!absl::ascii_isdigit(c)) {
      text.push_back(c);
    } else if (text.empty() || text.back() != '0') {
      text.push_back('0');
    }
  }
  return text;
}

}  // namespace

bool NewReasons::Add(absl::string_view reason) {
  if (told_.size() >= kMostRemembered) {
    told_.clear();
  }
  return told_.insert(WithoutNumbers(reason)).second;
}

}  // namespace monsoon
