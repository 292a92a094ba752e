// NumberRule: the range of one number of a configuration, and what it is where nobody sets it.
// Tables of such rules are what checks and defaults read.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

struct NumberRule {
  absl::string_view field;
  double least = 0;
  double most = 0;
  const char* complaint = "";  // $0: the value, $1: the most
  bool zero_is_unset = false;
  double unset = 0;  // what stands in for it
};

inline constexpr double kLargestFloat = std::numeric_limits<float>::max();
// Rates must survive the rounding to float32, or nothing would ever change; and a smaller
// epsilon is zero there, so that parameters nobody moved become 0 / 0.
inline constexpr double kSmallestFloat = std::numeric_limits<float>::min();
// The largest that is below 1 once rounded to float32: a mean of weight 1 would never forget.
inline constexpr double kBelowOneFloat = 0x1.fffffefffffffp-1;

inline constexpr char kNotPositive[] = "$0 is not positive and finite";
inline constexpr char kNegative[] = "$0 is not a finite number of at least 0";
inline constexpr char kNoShare[] = "$0 is outside [0, 1)";
inline constexpr char kNoEpsilon[] = "$0 is outside [1.2e-38, 1]";
inline constexpr char kTooMany[] = "$0 is more than $1";

// What is wrong with the value of a field that is set; empty where nothing is.
std::string NumberComplaint(const NumberRule& rule, double value);
std::string NumberComplaint(const NumberRule& rule, uint64_t value);

}  // namespace monsoon
