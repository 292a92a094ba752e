// How the driver ends where F, or its gradient too, is not smooth.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/lbfgs_direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/test_functions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using testing::FunctionObjective;
using ::testing::HasSubstr;
using testing::TestFunction;

struct Outcome {
  MinimizerResult result;
  double distance = 0.0;  // from the minimiser, in the largest element
};

// L-BFGS in float32 with the defaults.
absl::StatusOr<Outcome> MinimizeInFloat32(const TestFunction& test) {
  LocalVectorSpace space(test.start.size(), LocalVectorSpace::Precision::kFloat32);
  FunctionObjective objective(&space, test.function);
  OwnedVector start = OwnedVector::New(&space, "w");
  RETURN_IF_ERROR(space.Write(start.name(), test.start));
  LbfgsDirection direction(&space, 10);
  MinimizerOptions options;
  options.max_iterations = 2000;
  ASSIGN_OR_RETURN(MinimizerResult result,
                   Minimize(&space, &objective, &direction, options, std::move(start), nullptr));
  Outcome outcome;
  ASSIGN_OR_RETURN(const std::span<const double> w, space.Read(result.w.name()));
  for (size_t i = 0; i < w.size(); ++i) {
    outcome.distance = std::max(outcome.distance, std::abs(w[i] - test.minimiser[i]));
  }
  result.w.Release();  // the space goes first
  outcome.result = std::move(result);
  return outcome;
}

TEST(MinimizerNoiseTest, MeasuresTheNoiseOfFAndGoesOnToTheMinimum) {
  // With the floor of float32 every search ends 1e-2 above the minimum.
  const TestFunction test = testing::Noisy(1e4, 1e-6, 0.0);
  ASSERT_OK_AND_ASSIGN(const Outcome outcome, MinimizeInFloat32(test));
  const MinimizerResult& result = outcome.result;
  EXPECT_TRUE(result.reason == EndReason::kConverged || result.reason == EndReason::kFloatPrecision)
      << EndReasonName(result.reason) << ": " << result.detail;
  EXPECT_GE(result.noise_measurements, 1u);
  EXPECT_LE(outcome.distance, 1e-3);
  EXPECT_THAT(result.detail, HasSubstr("noise of F"));
}

TEST(MinimizerNoiseTest, StallsWhereRoundingHidesWhatIsLeft) {
  const TestFunction test = testing::Noisy(1e4, 1e-5, 0.1);
  ASSERT_OK_AND_ASSIGN(const Outcome outcome, MinimizeInFloat32(test));
  const MinimizerResult& result = outcome.result;
  EXPECT_EQ(EndReasonName(result.reason), "stalled") << result.detail;
  EXPECT_THAT(result.detail, HasSubstr("|g| "));
  EXPECT_THAT(result.detail, HasSubstr("standardise the features"));
}

}  // namespace
}  // namespace monsoon
