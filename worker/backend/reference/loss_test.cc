#include "worker/backend/reference/loss.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace monsoon::reference {
namespace {

LossPlan PlanOf(LossKind kind, uint64_t outputs, uint64_t steps = 1) {
  return {.kind = kind, .outputs = outputs, .steps = steps};
}

double LossOf(const LossPlan& plan, const std::vector<double>& outputs,
              const LossTargets& targets) {
  return ComputeLoss(plan, outputs, targets, {}).loss;
}

const double kLn2 = std::log(2.0), kLn3 = std::log(3.0);

// sigmoid(ln 3) = 3/4, so that log1p(e^ln3) = ln 4.
TEST(ReferenceLossTest, OneVersusAllEqualsHandComputedValues) {
  const LossPlan plan = PlanOf(LossKind::kOneVersusAllLogistic, 3);
  const std::vector<double> outputs = {kLn3, 0, -kLn3, kLn3, 0, -kLn3};
  const std::vector<uint32_t> labels = {0, 2};
  std::vector<double> diff(6);
  const LossSums sums = ComputeLoss(plan, outputs, {.labels = labels, .examples = 2}, diff);
  // -ln 3/4 - ln 1/2 - ln 3/4, and -ln 1/4 - ln 1/2 - ln 1/4.
  EXPECT_NEAR(sums.loss, -2 * std::log(0.75) + kLn2 - 2 * std::log(0.25) + kLn2, 1e-14);
  EXPECT_EQ(sums.correct, 1u);
  EXPECT_EQ(sums.unjudged, 0u);
  const double want[] = {-0.25, 0.5, 0.25, 0.75, 0.5, -0.75};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(diff[i], want[i] / 2, 1e-15) << i;
  }
}

TEST(ReferenceLossTest, OneOutputSaysYesOrNo) {
  LossPlan plan = PlanOf(LossKind::kBinaryCrossEntropy, 1);
  const std::vector<double> outputs = {kLn3, kLn3, 0, -1};
  const std::vector<uint32_t> labels = {1, 0, 1, 0};
  std::vector<double> diff(4);
  const LossTargets targets{.labels = labels, .examples = 4};
  LossSums sums = ComputeLoss(plan, outputs, targets, diff);
  EXPECT_NEAR(sums.loss, -std::log(0.75) - std::log(0.25) + kLn2 + std::log1p(std::exp(-1)), 1e-14);
  EXPECT_EQ(sums.correct, 2u) << "0 says no";
  EXPECT_NEAR(diff[0], -0.25 / 4, 1e-15);
  EXPECT_NEAR(diff[1], 0.75 / 4, 1e-15);
  // With smoothing 0.2 a yes is 0.9.
  plan.label_smoothing = 0.2;
  sums = ComputeLoss(plan, std::vector<double>{kLn3},
                     {.labels = std::span(labels).first(1), .examples = 1}, {});
  EXPECT_NEAR(sums.loss, -0.9 * std::log(0.75) - 0.1 * std::log(0.25), 1e-14);
}

TEST(ReferenceLossTest, SeveralOutputsAreTheMeanOfTheirs) {
  const LossPlan plan = PlanOf(LossKind::kBinaryCrossEntropy, 2);
  const std::vector<float> shares = {0.25f, 1};
  std::vector<double> diff(2);
  LossSums sums =
      ComputeLoss(plan, std::vector<double>{kLn3, 0}, {.targets = shares, .examples = 1}, diff);
  EXPECT_NEAR(sums.loss, (-0.25 * std::log(0.75) - 0.75 * std::log(0.25) + kLn2) / 2, 1e-14);
  EXPECT_EQ(sums.unjudged, 1u);
  EXPECT_EQ(sums.correct, 0u);
  EXPECT_NEAR(diff[0], (0.75 - 0.25) / 2, 1e-15);
  EXPECT_NEAR(diff[1], (0.5 - 1) / 2, 1e-15);
  const std::vector<uint32_t> label = {0};
  sums = ComputeLoss(plan, std::vector<double>{kLn3, 0}, {.labels = label, .examples = 1}, {});
  EXPECT_NEAR(sums.loss, (-std::log(0.75) + kLn2) / 2, 1e-14);
  EXPECT_EQ(sums.correct, 1u);
}

TEST(ReferenceLossTest, SquaredErrorsEqualHandComputedValues) {
  const std::vector<float> numbers = {1, 0, 0, 5};
  std::vector<double> diff(4);
  LossSums sums =
      ComputeLoss(PlanOf(LossKind::kMeanSquaredError, 2), std::vector<double>{1, 2, 3, 4},
                  {.targets = numbers, .examples = 2}, diff);
  EXPECT_EQ(sums.loss, 4.0 / 2 + 10.0 / 2);
  EXPECT_EQ(sums.unjudged, 2u);
  EXPECT_EQ(diff, std::vector<double>({0, 1, 1.5, -0.5}));
  const std::vector<uint32_t> label = {4};
  EXPECT_EQ(LossOf(PlanOf(LossKind::kMeanSquaredError, 1), {1.5}, {.labels = label, .examples = 1}),
            6.25);
}

TEST(ReferenceLossTest, SmoothedSoftmaxEqualsHandComputedValues) {
  LossPlan plan = PlanOf(LossKind::kSoftmaxCrossEntropy, 2);
  plan.label_smoothing = 0.2;
  // Probabilities 3/4 and 1/4, targets 0.9 and 0.1.
  const std::vector<uint32_t> label = {0};
  std::vector<double> diff(2);
  const LossSums sums =
      ComputeLoss(plan, std::vector<double>{kLn3, 0}, {.labels = label, .examples = 1}, diff);
  EXPECT_NEAR(sums.loss, -0.9 * std::log(0.75) - 0.1 * std::log(0.25), 1e-14);
  EXPECT_NEAR(diff[0], 0.75 - 0.9, 1e-15);
  EXPECT_NEAR(diff[1], 0.25 - 0.1, 1e-15);
}

TEST(ReferenceLossTest, WeightsMultiplyAndMeansAreOverSamples) {
  LossPlan plan = PlanOf(LossKind::kSoftmaxCrossEntropy, 2);
  plan.class_weights = {0.5f, 3};
  const std::vector<uint32_t> labels = {0, 1};
  const std::vector<float> weights = {4, 0.25f};
  std::vector<double> diff(4);
  const LossSums sums = ComputeLoss(plan, std::vector<double>{kLn3, 0, kLn3, 0},
                                    {.labels = labels, .weights = weights, .examples = 2}, diff);
  EXPECT_NEAR(sums.loss, -2 * std::log(0.75) - 0.75 * std::log(0.25), 1e-14);
  EXPECT_EQ(sums.correct, 1u);
  EXPECT_NEAR(diff[0], 2 * (0.75 - 1) / 2, 1e-15);
  EXPECT_NEAR(diff[2], 0.75 * 0.75 / 2, 1e-15);
}

TEST(ReferenceLossTest, ASequencesLossIsTheMeanOverItsSteps) {
  const LossPlan plan = PlanOf(LossKind::kBinaryCrossEntropy, 1, 3);
  const std::vector<uint32_t> labels = {1, 0, 1, 0, 0, 0};
  const std::vector<float> weights = {1, 2};
  std::vector<double> diff(6);
  const LossSums sums = ComputeLoss(plan, std::vector<double>{0, 0, kLn3, -kLn3, -kLn3, kLn3},
                                    {.labels = labels, .weights = weights, .examples = 2}, diff);
  EXPECT_NEAR(sums.loss,
              (2 * kLn2 - std::log(0.75)) / 3 + 2 * (-2 * std::log(0.75) - std::log(0.25)) / 3,
              1e-14);
  EXPECT_DOUBLE_EQ(sums.correct, 4.0 / 3) << "2/3 and 2/3 of a sample";
  EXPECT_NEAR(diff[0], -0.5 / 6, 1e-15);
  EXPECT_NEAR(diff[5], 2 * 0.75 / 6, 1e-15);
}

// The sign tells by 60: a loss of 9e-27, and 1 + it is 1 in double too.
TEST(ReferenceLossTest, SmallLossesKeepTheirDigits) {
  const std::vector<uint32_t> yes = {1}, second = {1};
  std::vector<double> diff(1);
  EXPECT_NEAR(ComputeLoss(PlanOf(LossKind::kBinaryCrossEntropy, 1), std::vector<double>{60},
                          {.labels = yes, .examples = 1}, diff)
                      .loss /
                  std::exp(-60.0),
              1.0, 1e-14);
  EXPECT_NEAR(diff[0] / -std::exp(-60.0), 1.0, 1e-14);
  EXPECT_NEAR(LossOf(PlanOf(LossKind::kOneVersusAllLogistic, 2), {-60, 60},
                     {.labels = second, .examples = 1}) /
                  (2 * std::exp(-60.0)),
              1.0, 1e-14);
}

TEST(ReferenceLossTest, NothingThatIsNotFiniteIsHidden) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<uint32_t> label = {1};
  for (const LossKind kind : {LossKind::kOneVersusAllLogistic, LossKind::kBinaryCrossEntropy}) {
    for (const double bad : {infinity, -infinity, std::nan("")}) {
      EXPECT_FALSE(
          std::isfinite(LossOf(PlanOf(kind, 2), {bad, 0}, {.labels = label, .examples = 1})));
      EXPECT_FALSE(
          std::isfinite(LossOf(PlanOf(kind, 2), {0, bad}, {.labels = label, .examples = 1})));
    }
  }
  const std::vector<float> target = {0};
  EXPECT_FALSE(std::isfinite(LossOf(PlanOf(LossKind::kMeanSquaredError, 1), {infinity},
                                    {.targets = target, .examples = 1})));
}

struct Setting {
  std::string name;
  LossPlan plan;
  bool targets = false;
  bool weighted = false;
};

void PrintTo(const Setting& setting, std::ostream* os) { *os << setting.name; }

class LossGradientTest : public ::testing::TestWithParam<Setting> {};

TEST_P(LossGradientTest, EqualsFiniteDifferences) {
  const Setting& setting = GetParam();
  const LossPlan& plan = setting.plan;
  constexpr size_t kExamples = 3;
  const size_t size = kExamples * plan.steps * plan.outputs;
  std::vector<double> outputs(size), diff(size);
  std::vector<float> numbers(size);
  std::vector<uint32_t> labels(kExamples * plan.steps);
  for (size_t i = 0; i < size; ++i) {
    outputs[i] = 3 * std::sin(2.0 * static_cast<double>(i) + 1);
    numbers[i] = static_cast<float>(i % 5) / 4;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<uint32_t>(i * 7 % (plan.outputs == 1 ? 2 : plan.outputs));
  }
  const std::vector<float> weights = {0.5f, 2, 0};
  LossTargets targets{.examples = kExamples};
  if (setting.targets) {
    targets.targets = numbers;
  } else {
    targets.labels = labels;
  }
  if (setting.weighted) {
    targets.weights = weights;
  }
  ComputeLoss(plan, outputs, targets, diff);
  const auto mean = [&](std::span<const double> at) {
    return ComputeLoss(plan, at, targets, {}).loss / kExamples;
  };
  const GradientError error = CheckGradient(
      mean, outputs, diff, [](size_t) { return true; }, 1e-5);
  EXPECT_LT(error.relative, 1e-6) << "at " << error.index << ": " << error.given << " instead of "
                                  << error.numeric;
}

std::vector<Setting> AllSettings() {
  std::vector<Setting> all;
  const auto add = [&all](const std::string& name, LossPlan plan, bool targets) {
    all.push_back({name, plan, targets, false});
    all.push_back({name + "Weighted", plan, targets, true});
    plan.steps = 3;
    all.push_back({name + "Steps", plan, targets, true});
    if (plan.kind == LossKind::kSoftmaxCrossEntropy || plan.kind == LossKind::kBinaryCrossEntropy) {
      plan.label_smoothing = 0.3;
      all.push_back({name + "Smoothed", plan, targets, false});
    }
    if (!targets) {
      plan.class_weights.assign(plan.outputs == 1 ? 2 : plan.outputs, 0.5f);
      plan.class_weights[1] = 4;
      all.push_back({name + "ClassWeights", plan, targets, true});
    }
  };
  add("Softmax", PlanOf(LossKind::kSoftmaxCrossEntropy, 4), false);
  add("OneVersusAll", PlanOf(LossKind::kOneVersusAllLogistic, 4), false);
  add("YesOrNo", PlanOf(LossKind::kBinaryCrossEntropy, 1), false);
  add("YesOrNoTarget", PlanOf(LossKind::kBinaryCrossEntropy, 1), true);
  add("Binary", PlanOf(LossKind::kBinaryCrossEntropy, 3), false);
  add("BinaryTargets", PlanOf(LossKind::kBinaryCrossEntropy, 3), true);
  add("SquaredTargets", PlanOf(LossKind::kMeanSquaredError, 3), true);
  all.push_back({"SquaredLabel", PlanOf(LossKind::kMeanSquaredError, 1), false, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Settings, LossGradientTest, ::testing::ValuesIn(AllSettings()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace monsoon::reference
