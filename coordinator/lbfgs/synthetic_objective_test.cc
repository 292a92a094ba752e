#include "coordinator/lbfgs/synthetic_objective.h"

#include <cmath>

#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/lbfgs_direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::vector<double> Get(LocalVectorSpace& space, const std::string& name) {
  EXPECT_OK(space.Flush());
  const auto values = space.Read(name);
  EXPECT_OK(values);
  return {values->begin(), values->end()};
}

TEST(SyntheticObjectiveTest, IsTheQuadraticOfItsVectors) {
  for (const double l2 : {0.0, 0.5}) {
    LocalVectorSpace space(200, LocalVectorSpace::Precision::kDouble);
    ASSERT_OK_AND_ASSIGN(SyntheticObjective objective,
                         SyntheticObjective::Create(&space, 3, 10.0, l2));
    EXPECT_EQ(space.round_trips(), 0u);
    ASSERT_OK(space.Uniform("w", 4, 9, -2.0, 2.0));
    ASSERT_OK_AND_ASSIGN(const ObjectiveValue value, objective.Evaluate("w", "g", ""));
    EXPECT_EQ(space.round_trips(), 2u);
    const std::vector<double> a = Get(space, objective.a());
    const std::vector<double> b = Get(space, objective.b());
    const std::vector<double> w = Get(space, "w");
    const std::vector<double> g = Get(space, "g");
    double f = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_GE(a[i], 1.0);
      EXPECT_LT(a[i], 10.0);
      EXPECT_LT(std::abs(b[i]), 1.0 + 1e-15);
      const double e = w[i] - b[i];
      f += 0.5 * a[i] * e * e + 0.5 * l2 * w[i] * w[i];
      EXPECT_NEAR(g[i], a[i] * e + l2 * w[i], 1e-13);
    }
    EXPECT_TRUE(value.finite);
    EXPECT_NEAR(value.f, f, 1e-12 * f);
    ASSERT_OK(space.Flush());
    EXPECT_EQ(space.live_vectors(), 4u) << "a, b, w and g";
  }
}

TEST(SyntheticObjectiveTest, TheDriverFindsItsMinimumInFloat32) {
  constexpr double kL2 = 0.5;
  LocalVectorSpace space(1000, LocalVectorSpace::Precision::kFloat32);
  ASSERT_OK_AND_ASSIGN(SyntheticObjective objective,
                       SyntheticObjective::Create(&space, 3, 100.0, kL2));
  OwnedVector start = OwnedVector::New(&space, "w");
  ASSERT_OK(space.Copy(start.name(), ""));
  LbfgsDirection direction(&space, 10);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result,
                       Minimize(&space, &objective, &direction, {}, std::move(start), nullptr));
  EXPECT_EQ(result.reason, EndReason::kConverged);
  const std::vector<double> a = Get(space, objective.a());
  const std::vector<double> b = Get(space, objective.b());
  const std::vector<double> w = Get(space, result.w.name());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(w[i], a[i] * b[i] / (a[i] + kL2), 2e-4);
  }
}

TEST(SyntheticObjectiveTest, AnOverflowIsANonFiniteResultWithoutAGradient) {
  LocalVectorSpace space(3, LocalVectorSpace::Precision::kFloat32);
  ASSERT_OK_AND_ASSIGN(SyntheticObjective objective,
                       SyntheticObjective::Create(&space, 3, 10.0, 0.0));
  ASSERT_OK(space.Fill("w", 1e38));
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue value, objective.Evaluate("w", "g", ""));
  EXPECT_FALSE(value.finite);
  EXPECT_EQ(value.f, HUGE_VAL);
  ASSERT_OK(space.Flush());
  EXPECT_THAT(space.Read("g").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"g\"")));
}

TEST(SyntheticObjectiveTest, ConditionOneIsASphere) {
  LocalVectorSpace space(5, LocalVectorSpace::Precision::kFloat32);
  ASSERT_OK_AND_ASSIGN(const SyntheticObjective objective,
                       SyntheticObjective::Create(&space, 3, 1.0, 0.0));
  EXPECT_EQ(Get(space, objective.a()), std::vector<double>(5, 1.0));
}

TEST(SyntheticObjectiveTest, RefusesACondition) {
  LocalVectorSpace space(3, LocalVectorSpace::Precision::kFloat32);
  const auto invalid = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("condition"));
  EXPECT_THAT(SyntheticObjective::Create(&space, 3, 0.5, 0.0).status(), invalid);
  EXPECT_THAT(SyntheticObjective::Create(&space, 3, std::nan(""), 0.0).status(), invalid);
  EXPECT_THAT(SyntheticObjective::Create(&space, 3, 2.0, -1.0).status(), invalid);
}

}  // namespace
}  // namespace monsoon
