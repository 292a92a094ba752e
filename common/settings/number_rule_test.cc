#include "common/settings/number_rule.h"

#include <cmath>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;

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
  const NumberRule rule = {"epsilon", kSmallestFloat, 1, "$0 is outside [1.2e-38, 1]", true, 1e-8};
  EXPECT_EQ(NumberComplaint(rule, 0.0), "");
  EXPECT_EQ(NumberComplaint(rule, 1e-50), "1e-50 is outside [1.2e-38, 1]");
}

NumberRule RuleOf(const Descriptor& type, const std::string& field) {
  const std::optional<NumberRule> rule = monsoon::RuleOf(*type.FindFieldByName(field));
  EXPECT_TRUE(rule) << field;
  return rule.value_or(NumberRule());
}

TEST(NumberRuleTest, BelowOneIsSoInFloat32) {
  const double most = RuleOf(*Momentum::descriptor(), "momentum").most;
  EXPECT_LT(static_cast<float>(most), 1.0f);
  EXPECT_EQ(static_cast<float>(std::nextafter(most, 1.0)), 1.0f);
}

TEST(NumberRuleTest, AboveZeroIsSoInFloat32) {
  const NumberRule rule = RuleOf(*Sgd::descriptor(), "rate");
  EXPECT_TRUE(std::isnormal(static_cast<float>(rule.least)));
  EXPECT_FALSE(std::isnormal(static_cast<float>(rule.least / 2)));
  EXPECT_TRUE(std::isfinite(static_cast<float>(rule.most)));
  EXPECT_FALSE(std::isfinite(static_cast<float>(std::nextafter(rule.most, HUGE_VAL))));
}

TEST(NumberRuleTest, TheRangeOfAFieldTellsWhatIsWrong) {
  const auto complaint = [](const Descriptor& type, const std::string& field, double value) {
    return NumberComplaint(RuleOf(type, field), value);
  };
  EXPECT_EQ(complaint(*Sgd::descriptor(), "rate", 0), "0 is not positive and finite");
  EXPECT_EQ(complaint(*Optimizer::descriptor(), "clip_norm", -1),
            "-1 is not a finite number of at least 0");
  EXPECT_EQ(complaint(*Momentum::descriptor(), "momentum", 1), "1 is outside [0, 1)");
  EXPECT_EQ(complaint(*StepSchedule::descriptor(), "factor", 0), "0 is outside (0, 1]");
  EXPECT_EQ(complaint(*Optimizer::descriptor(), "damping", 5), "5 is outside [0, 4]");
  EXPECT_EQ(complaint(*Dataset::descriptor(), "mean", HUGE_VAL), "inf is not a finite float32");
  EXPECT_EQ(complaint(*Stop::descriptor(), "epochs", 2e9), "2e+09 is outside 0 .. 1e+09");
}

TEST(NumberRuleTest, WhatIsUncheckedHasNoRule) {
  EXPECT_FALSE(monsoon::RuleOf(*Job::descriptor()->FindFieldByName("seed")));
  EXPECT_FALSE(monsoon::RuleOf(*Job::descriptor()->FindFieldByName("name")));
}

TEST(NumberRuleTest, FillsWhatIsUnset) {
  Adam adam;
  adam.set_beta1(0);
  FillUnset(&adam, {"epsilon"});
  EXPECT_EQ(adam.beta1(), 0) << "it is set, to 0";
  EXPECT_EQ(adam.beta2(), 0.999);
  EXPECT_EQ(adam.epsilon(), 0);
  EXPECT_EQ(NumberOrUnset(adam, "epsilon"), 1e-8);
  EXPECT_EQ(NumberOrUnset(adam, "beta1"), 0);
  Downpour downpour;
  FillUnset(&downpour);
  EXPECT_EQ(downpour.n_push(), 1u);
}

}  // namespace
}  // namespace monsoon
