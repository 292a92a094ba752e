#include "worker/backend/cpu/softmax_cross_entropy.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/reference/softmax_cross_entropy.h"

namespace monsoon::cpu {
namespace {

constexpr size_t kClasses = 10;
constexpr size_t kExamples = 64;

// Samples whose label leads by `lead` on average; a negative one trails.
struct Samples {
  std::vector<float> outputs;
  std::vector<uint32_t> labels;
};
Samples Draw(float lead) {
  const PhiloxStream stream(7, StreamKind::kTest);
  Samples samples;
  for (size_t n = 0; n < kExamples; ++n) {
    samples.labels.push_back(static_cast<uint32_t>(n % kClasses));
    for (size_t c = 0; c < kClasses; ++c) {
      samples.outputs.push_back(stream.Normal(n * kClasses + c) + (c == n % kClasses ? lead : 0));
    }
  }
  return samples;
}

// float32 differences of outputs of 1 to 80 and their exponentials are right to
// 1e-5; a sum near 1 in float32 would lose everything below 6e-8.
TEST(CpuSoftmaxCrossEntropyTest, LossAndGradientKeepTheirDigitsHoweverSmall) {
  for (const float lead : {-30.0f, -3.0f, 0.0f, 5.0f, 20.0f, 40.0f, 80.0f}) {
    const Samples samples = Draw(lead);
    for (size_t n = 0; n < kExamples; ++n) {
      const std::span<const float> row = std::span(samples.outputs).subspan(n * kClasses, kClasses);
      const std::span<const uint32_t> label = std::span(samples.labels).subspan(n, 1);
      const std::vector<double> precise(row.begin(), row.end());
      std::vector<double> want(kClasses);
      const LossSums sums = reference::SoftmaxCrossEntropy(precise, label, want);
      std::vector<float> diff(kClasses);
      const EvaluationResult got = SoftmaxCrossEntropy(row, label, diff);
      EXPECT_GT(sums.loss, 0.0);
      EXPECT_NEAR(got.loss_sum, sums.loss, 1e-5 * sums.loss) << lead;
      EXPECT_EQ(got.loss_sum, SoftmaxCrossEntropy(row, label, {}).loss_sum);
      for (size_t c = 0; c < kClasses; ++c) {
        EXPECT_NEAR(diff[c], want[c], 1e-5 * std::abs(want[c]) + 1e-37) << lead << ", class " << c;
      }
    }
  }
}

TEST(CpuSoftmaxCrossEntropyTest, TheGradientIsOfTheMean) {
  const Samples samples = Draw(2.0f);
  const std::vector<double> precise(samples.outputs.begin(), samples.outputs.end());
  std::vector<double> want(precise.size());
  reference::SoftmaxCrossEntropy(precise, samples.labels, want);
  std::vector<float> diff(precise.size());
  SoftmaxCrossEntropy(samples.outputs, samples.labels, diff);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(diff[i], want[i], 1e-5 * std::abs(want[i]));
  }
}

TEST(CpuSoftmaxCrossEntropyTest, NothingThatIsNotFiniteIsHidden) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<uint32_t> label = {1};
  for (const std::vector<float>& row : std::vector<std::vector<float>>{{kNan, 0, 0},
                                                                       {0, kNan, 0},
                                                                       {0, 0, kNan},
                                                                       {kInfinity, 0, 0},
                                                                       {0, kInfinity, 0},
                                                                       {0, -kInfinity, 0}}) {
    EXPECT_FALSE(std::isfinite(SoftmaxCrossEntropy(row, label, {}).loss_sum));
  }
}

}  // namespace
}  // namespace monsoon::cpu
