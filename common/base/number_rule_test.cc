#include "common/base/number_rule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(NumberRuleTest, ComplainsOutsideTheRange) {
  const NumberRule rule = {"share", 0.25, 0.5, "$0 is outside 0.25 .. $1"};
  EXPECT_EQ(NumberComplaint(rule, 0.25), "");
  EXPECT_EQ(NumberComplaint(rule, 0.5), "");
  EXPECT_EQ(NumberComplaint(rule, 0.75), "0.75 is outside 0.25 .. 0.5");
  EXPECT_EQ(NumberComplaint(rule, 0.0), "0 is outside 0.25 .. 0.5");
  EXPECT_EQ(NumberComplaint(rule, std::nan("")), "nan is outside 0.25 .. 0.5");
}

TEST(NumberRuleTest, WholeNumbersAreTooFewOrTooMany) {
  const NumberRule rule = {"count", 2, 1024, kTooMany};
  EXPECT_EQ(NumberComplaint(rule, uint64_t{1}), "must be at least 2");
  EXPECT_EQ(NumberComplaint(rule, uint64_t{1025}), "1025 is more than 1024");
}

TEST(NumberRuleTest, ZeroMayBeUnset) {
  const NumberRule rule = {"epsilon", kSmallestFloat, 1, kNoEpsilon, true, 1e-8};
  EXPECT_EQ(NumberComplaint(rule, 0.0), "");
  EXPECT_EQ(NumberComplaint(rule, 1e-50), "1e-50 is outside [1.2e-38, 1]");
}

TEST(NumberRuleTest, BelowOneIsSoInFloat32) {
  EXPECT_LT(static_cast<float>(kBelowOneFloat), 1.0f);
  EXPECT_EQ(static_cast<float>(std::nextafter(kBelowOneFloat, 1.0)), 1.0f);
}

}  // namespace
}  // namespace monsoon
