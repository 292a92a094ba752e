// NumberCheck: the ranges that numeric settings of a job share. Internal to
// config.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/config/reporter.h"

namespace monsoon {

// More workers than any cluster has.
inline constexpr uint32_t kMaxReplicas = 4096;

class NumberCheck {
 public:
  explicit NumberCheck(Reporter* reporter) : reporter_(reporter) {}

  // Rates must survive the rounding to float32, or nothing would ever change.
  // The comparisons are false for NaN.
  void Positive(const std::string& field, double value) {
    if (!(value >= std::numeric_limits<float>::min() &&
          value <= std::numeric_limits<float>::max())) {
      Refuse(field, value, "is not positive and finite");
    }
  }
  void NotNegative(const std::string& field, double value) {
    if (!(value >= 0.0 && value <= std::numeric_limits<float>::max())) {
      Refuse(field, value, "is not a finite number of at least 0");
    }
  }
  void AtLeastOne(const std::string& field, uint64_t value) {
    if (value == 0) {
      reporter_->Error(field, "must be at least 1");
    }
  }
  void AtMost(const std::string& field, uint64_t value, uint64_t limit) {
    if (value > limit) {
      reporter_->Error(field, absl::StrCat(value, " is more than ", limit));
    }
  }
  void Refuse(const std::string& field, double value, absl::string_view want) {
    reporter_->Error(field, absl::StrCat(value, " ", want));
  }

 private:
  Reporter* reporter_;
};

}  // namespace monsoon
