#include "worker/nn/gradient_check.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

double Cubes(std::span<const double> x) { return x[0] * x[0] * x[0] + 2 * x[1]; }
bool All(size_t) { return true; }

TEST(GradientCheckTest, AcceptsTheDerivative) {
  const std::vector<double> at = {0.5, -3};
  const std::vector<double> gradient = {0.75, 2};
  EXPECT_LT(CheckGradient(Cubes, at, gradient, All).relative, 1e-8);
}

TEST(GradientCheckTest, FindsASignErrorAndWhere) {
  const std::vector<double> at = {0.5, -3};
  const std::vector<double> gradient = {0.75, -2};
  const GradientError error = CheckGradient(Cubes, at, gradient, All);
  EXPECT_NEAR(error.relative, 2.0, 1e-6);
  EXPECT_EQ(error.index, 1u);
  EXPECT_NEAR(error.numeric, 2.0, 1e-6);
}

TEST(GradientCheckTest, ANanIsNeverAccepted) {
  const std::vector<double> at = {0.5, -3};
  const std::vector<double> gradient = {0.75, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(CheckGradient(Cubes, at, gradient, All).relative));
}

TEST(GradientCheckTest, LeavesOutWhatIsNotUsed) {
  const std::vector<double> at = {0.5, -3};
  const std::vector<double> gradient = {0.75, -2};
  EXPECT_LT(CheckGradient(Cubes, at, gradient, [](size_t i) { return i == 0; }).relative, 1e-8);
}

}  // namespace
}  // namespace monsoon
