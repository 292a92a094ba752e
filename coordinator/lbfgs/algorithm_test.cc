#include "coordinator/lbfgs/algorithm.h"

#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/conjugate_gradient.h"
#include "coordinator/lbfgs/gradient_descent.h"
#include "coordinator/lbfgs/lbfgs_direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(AlgorithmTest, EachNameMakesItsStrategy) {
  LocalVectorSpace space(1, LocalVectorSpace::Precision::kDouble);
  Sandblaster config;
  EXPECT_NE(dynamic_cast<LbfgsDirection*>(MakeDirection(config, &space).get()), nullptr);
  config.set_algorithm(Sandblaster::NONLINEAR_CG);
  EXPECT_NE(dynamic_cast<ConjugateGradient*>(MakeDirection(config, &space).get()), nullptr);
  config.set_algorithm(Sandblaster::GRADIENT_DESCENT);
  EXPECT_NE(dynamic_cast<GradientDescent*>(MakeDirection(config, &space).get()), nullptr);
}

TEST(AlgorithmTest, UnsetOptionsGetTheDocumentedDefaults) {
  ASSERT_OK_AND_ASSIGN(const MinimizerOptions options, MakeMinimizerOptions(Sandblaster()));
  EXPECT_EQ(options.max_iterations, 100u);
  EXPECT_EQ(options.tolerances.gradient, 0.0);
  EXPECT_EQ(options.line_search.c1, 1e-4);
  EXPECT_EQ(options.line_search.c2, 0.9);
  EXPECT_EQ(options.line_search.max_evaluations, 20u);
}

TEST(AlgorithmTest, SetOptionsAreTaken) {
  Sandblaster config;
  config.set_max_iterations(7);
  config.set_gradient_tolerance(1e-3);
  config.set_relative_gradient_tolerance(1e-4);
  config.set_f_tolerance(1e-6);
  config.mutable_line_search()->set_c1(1e-3);
  config.mutable_line_search()->set_c2(0.5);
  config.mutable_line_search()->set_max_evaluations(9);
  ASSERT_OK_AND_ASSIGN(const MinimizerOptions options, MakeMinimizerOptions(config));
  EXPECT_EQ(options.max_iterations, 7u);
  EXPECT_EQ(options.tolerances.gradient, 1e-3);
  EXPECT_EQ(options.tolerances.relative_gradient, 1e-4);
  EXPECT_EQ(options.tolerances.f, 1e-6);
  EXPECT_EQ(options.line_search.c1, 1e-3);
  EXPECT_EQ(options.line_search.c2, 0.5);
  EXPECT_EQ(options.line_search.max_evaluations, 9u);
  config.mutable_line_search()->set_c2(1.5);
  EXPECT_THAT(MakeMinimizerOptions(config).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("c2")));
}

}  // namespace
}  // namespace monsoon
