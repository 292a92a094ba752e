// Problems whose tensors differ in scale, beside their minimum as liblbfgs finds it in double
// where all have one scale: what a run says of its end must be true.
#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/test_functions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using testing::Function;
using testing::FunctionObjective;
using ::testing::HasSubstr;
using ::testing::Not;
using Precision = LocalVectorSpace::Precision;

using testing::Features;
using testing::kFeatures;
using testing::Logistic;

// The weights, then a bias.
const std::vector<TensorRange> kTensors = {{0, kFeatures}, {kFeatures, kFeatures + 1}};

lbfgsfloatval_t EvaluateReference(void* function, const lbfgsfloatval_t* x, lbfgsfloatval_t* g,
                                  int n, lbfgsfloatval_t) {
  const auto size = static_cast<size_t>(n);
  return (*static_cast<const Function*>(function))({x, size}, {g, size});
}

// Neither scale nor mean changes it, as long as there is a bias.
double MinimumOf(Features c) {
  c.scale = 1.0;
  c.mean = 0.0;
  c.last = 1.0;
  Function function = Logistic(c);
  std::unique_ptr<lbfgsfloatval_t, decltype(&lbfgs_free)> x(lbfgs_malloc(kFeatures + 1),
                                                            &lbfgs_free);
  std::fill_n(x.get(), kFeatures + 1, 0.0);
  lbfgs_parameter_t parameters;
  lbfgs_parameter_init(&parameters);
  parameters.epsilon = 1e-12;
  lbfgsfloatval_t f = 0.0;
  lbfgs(kFeatures + 1, x.get(), &f, &EvaluateReference, nullptr, &function, &parameters);
  return f;
}

struct Outcome {
  MinimizerResult result;
  std::vector<double> parameters;  // as they were published
  size_t peak_vectors = 0;
};

absl::StatusOr<Outcome> Minimise(const Features& c, uint32_t max_iterations = 1500,
                                 bool may_be_unbounded = true,
                                 const Sandblaster& config = Sandblaster()) {
  LocalVectorSpace space(kFeatures + 1, Precision::kFloat32);
  FunctionObjective objective(&space, Logistic(c));
  OwnedVector start = OwnedVector::New(&space, "w");
  RETURN_IF_ERROR(space.Fill(start.name(), 0.0));
  const std::unique_ptr<Direction> direction = MakeDirection(config, &space);
  ASSIGN_OR_RETURN(MinimizerOptions options, MakeMinimizerOptions(config));
  options.max_iterations = max_iterations;
  options.tensors = kTensors;
  options.may_be_unbounded = may_be_unbounded;
  ASSIGN_OR_RETURN(MinimizerResult result, Minimize(&space, &objective, direction.get(), options,
                                                    std::move(start), nullptr));
  ASSIGN_OR_RETURN(const std::span<const double> w, space.Read(result.w.name()));
  EXPECT_EQ(std::vector<double>(w.begin(), w.end()), space.parameters());
  result.w.Release();  // the space goes first
  return Outcome{std::move(result), space.parameters(), space.peak_vectors()};
}

class BadlyScaledTest : public ::testing::TestWithParam<Features> {};

TEST_P(BadlyScaledTest, TheEndIsTrue) {
  const Features c = GetParam();
  const double minimum = MinimumOf(c);
  ASSERT_OK_AND_ASSIGN(const Outcome run, Minimise(c));
  std::vector<double> g(kFeatures + 1);
  const double f = Logistic(c)(run.parameters, g);
  EXPECT_DOUBLE_EQ(f, run.result.f) << "what is told is of what is published";
  const std::string reason(EndReasonName(run.result.reason));
  RecordProperty("reason", reason);
  RecordProperty("evaluations", static_cast<int>(run.result.evaluations));
  if (reason == "converged" || reason == "float32_precision") {
    EXPECT_LE(f / minimum - 1.0, 1e-6) << reason << ": " << run.result.detail;
  }
  if (c.mean == 0.0 && c.features == kFeatures) {
    EXPECT_THAT(reason, ::testing::AnyOf("converged", "float32_precision")) << run.result.detail;
  }
  EXPECT_THAT(run.result.detail, Not(HasSubstr("no minimum")));
}

INSTANTIATE_TEST_SUITE_P(
    Scales, BadlyScaledTest,
    ::testing::Values(Features{1.0}, Features{1e3}, Features{1e6}, Features{1e9}, Features{1e-3},
                      Features{1e-6}, Features{1e-9}, Features{1e6, 1.0}, Features{1e6, 5.0},
                      Features{1e-6, 1.0}, Features{1.0, 30.0}, Features{1e6, 0, 1},
                      Features{1e-6, 0, 1}, Features{1e-6, 0, 7}, Features{1e6, 0, 7},
                      Features{1e3, 0, 4}, Features{1e-3, 0, 4}, Features{1e9, 0, 2},
                      Features{1e-9, 0, 3}, Features{1.0, 1e3, 1}, Features{1.0, 1e4, 1},
                      Features{1.0, 1e6, 1}, Features{1.0, 1e5, 3}, Features{1e-3, 1e4, 2},
                      Features{1e6, 0, 2, false, 1e-4}, Features{1e6, 0, 5, false, 1e-4},
                      Features{1e3, 0, 3, false, 1e-3}));

// The memory that minimizer.h states, for which a job's memory is reckoned.
TEST(BadlyScaledMemoryTest, TrialsAndScaledVariablesTakeFewVectors) {
  for (const uint32_t pairs : {0u, 1u, 2u, 10u}) {
    SCOPED_TRACE(pairs);
    Sandblaster config;
    config.set_algorithm(pairs == 0 ? Sandblaster::NONLINEAR_CG : Sandblaster::LBFGS);
    config.set_history(std::max(1u, pairs));
    for (const Features& c : {Features{1e6, 1.0}, Features{1.0, 1e4, 1}}) {
      ASSERT_OK_AND_ASSIGN(const Outcome outcome, Minimise(c, 400, true, config));
      EXPECT_LE(outcome.peak_vectors, std::max<size_t>(2 * pairs + 10, 15));
    }
  }
}

TEST(StandardiseHintTest, TheEndNamesTheSettingThatHelps) {
  const auto detail = [](const Features& c, uint32_t iterations, const std::string& reason) {
    const absl::StatusOr<Outcome> run = Minimise(c, iterations);
    EXPECT_OK(run);
    EXPECT_EQ(EndReasonName(run->result.reason), reason);
    return run->result.detail;
  };
  EXPECT_THAT(detail({1.0, 1e6, 1}, 1500, "stalled"), HasSubstr("standardise: true of the job"));
  EXPECT_THAT(detail({1e6, 1.0}, 20, "max_iterations"),
              HasSubstr("hold it up: standardise: true of the job"));
  EXPECT_THAT(detail({1.0}, 5, "max_iterations"), Not(HasSubstr("standardise")));
}

TEST(SeparableTest, TheEndSaysThatThereIsNoMinimum) {
  for (const uint32_t iterations : {30u, 1000u}) {
    ASSERT_OK_AND_ASSIGN(const Outcome run, Minimise({.separable = true}, iterations));
    EXPECT_THAT(run.result.detail, HasSubstr("there is no minimum"))
        << EndReasonName(run.result.reason);
  }
  ASSERT_OK_AND_ASSIGN(const Outcome unasked, Minimise({.separable = true}, 1000, false));
  EXPECT_THAT(unasked.result.detail, Not(HasSubstr("no minimum")));
}

}  // namespace
}  // namespace monsoon
