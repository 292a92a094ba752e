#include "common/base/number_rule.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace monsoon {
namespace {

template <typename Number>
std::string Complaint(const NumberRule& rule, Number value) {
  // The comparisons are false for NaN.
  if ((rule.zero_is_unset && value == 0) || (value >= rule.least && value <= rule.most)) {
    return "";
  }
  const bool too_few = std::is_integral_v<Number> && value < rule.least;
  return too_few ? absl::StrCat("must be at least ", static_cast<Number>(rule.least))
                 : absl::Substitute(rule.complaint, value, static_cast<Number>(rule.most));
}

}  // namespace

std::string NumberComplaint(const NumberRule& rule, double value) { return Complaint(rule, value); }

std::string NumberComplaint(const NumberRule& rule, uint64_t value) {
  return Complaint(rule, value);
}

}  // namespace monsoon
