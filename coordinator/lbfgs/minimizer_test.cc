#include "coordinator/lbfgs/minimizer.h"

#include <cmath>
#include <limits>
#include <memory>

#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/conjugate_gradient.h"
#include "coordinator/lbfgs/gradient_descent.h"
#include "coordinator/lbfgs/lbfgs_direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/test_functions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using testing::FunctionObjective;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TestFunction;
using Precision = LocalVectorSpace::Precision;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint32_t kHistory = 10;

// One run over local arrays.
struct LocalRun {
  LocalRun(const TestFunction& test, Precision precision)
      : space(test.start.size(), precision), objective(&space, test.function) {
    start = OwnedVector::New(&space, "w");
    EXPECT_OK(space.Write(start.name(), test.start));
    options.tolerances.gradient = 1e-5;
  }
  absl::StatusOr<MinimizerResult> Minimize(Direction* direction) {
    return monsoon::Minimize(&space, &objective, direction, options, std::move(start), observer);
  }
  double Distance(const MinimizerResult& result, const TestFunction& test) {
    const std::span<const double> w = *space.Read(result.w.name());
    double distance = 0.0;
    for (size_t i = 0; i < w.size(); ++i) {
      distance = std::max(distance, std::abs(w[i] - test.minimiser[i]));
    }
    return distance;
  }

  LocalVectorSpace space;
  FunctionObjective objective;
  OwnedVector start;
  MinimizerOptions options;
  IterationObserver observer;
};

struct KnownCase {
  TestFunction test;
  Precision precision;
  double tolerance;
};

void PrintTo(const KnownCase& known, std::ostream* out) {
  *out << known.test.name << " " << known.test.start.size()
       << (known.precision == Precision::kDouble ? " double" : " float32");
}

std::vector<KnownCase> KnownCases() {
  std::vector<KnownCase> cases;
  for (const Precision precision : {Precision::kDouble, Precision::kFloat32}) {
    const bool is_double = precision == Precision::kDouble;
    const double tolerance = is_double ? 1e-6 : 1e-3;
    for (const TestFunction& test :
         {testing::Rosenbrock(2), testing::Rosenbrock(100), testing::Beale(), testing::Wood(),
          testing::HelicalValley(), testing::Quadratic(50, 100.0)}) {
      cases.push_back({test, precision, tolerance});
    }
    // The distance falls with the fourth root of f only.
    cases.push_back({testing::PowellSingular(), precision, is_double ? 1e-2 : 3e-2});
  }
  return cases;
}

class KnownMinimumTest : public ::testing::TestWithParam<KnownCase> {};

TEST_P(KnownMinimumTest, LbfgsFindsIt) {
  const KnownCase& known = GetParam();
  LocalRun setup(known.test, known.precision);
  setup.options.max_iterations = 500;
  setup.options.tolerances.gradient = known.precision == Precision::kDouble ? 1e-8 : 1e-5;
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_TRUE(result.reason == EndReason::kConverged || result.reason == EndReason::kFloatPrecision)
      << EndReasonName(result.reason) << ": " << result.line_search_failure;
  EXPECT_LE(setup.Distance(result, known.test), known.tolerance);
  EXPECT_LT(result.evaluations, 200u);
  RecordProperty("evaluations", static_cast<int>(result.evaluations));
}

INSTANTIATE_TEST_SUITE_P(Functions, KnownMinimumTest, ::testing::ValuesIn(KnownCases()));

// A function whose value never comes near zero, so that float32 parameters leave
// a floor of f: without the floor's rules no line search could end there.
TestFunction OffsetQuadratic() {
  TestFunction test = testing::Quadratic(30, 100.0);
  test.function = [inner = test.function](std::span<const double> x, std::span<double> g) {
    std::vector<double> moved(x.begin(), x.end());
    for (size_t i = 0; i < moved.size(); ++i) {
      moved[i] += 1.0 - 0.1 * static_cast<double>(i + 3);
    }
    return static_cast<double>(static_cast<float>(10.0 + inner(moved, g)));
  };
  for (size_t i = 0; i < test.minimiser.size(); ++i) {
    test.minimiser[i] = 0.1 * static_cast<double>(i + 3);
  }
  return test;
}

TEST(MinimizerTest, EndsAtTheFloorOfFloat32) {
  const TestFunction test = OffsetQuadratic();
  LocalRun setup(test, Precision::kFloat32);
  setup.options.tolerances.gradient = 0.0;
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  // The slopes go on to tell where F cannot.
  EXPECT_EQ(EndReasonName(result.reason), "converged") << result.line_search_failure;
  EXPECT_NEAR(result.f, 10.0, 2e-6);
  EXPECT_LE(setup.Distance(result, test), 1e-4);
  EXPECT_LE(result.iterations, 70u);
}

TEST(MinimizerTest, TheObserverEndsTheRunAtItsTarget) {
  LocalRun setup(testing::Rosenbrock(2), Precision::kDouble);
  setup.observer = [](const IterationReport& report) { return report.iteration < 4; };
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(EndReasonName(result.reason), "target_reached");
  EXPECT_EQ(result.iterations, 4u);
}

TEST(MinimizerTest, EndsAfterTheIterationsAllowed) {
  LocalRun setup(testing::Rosenbrock(2), Precision::kDouble);
  setup.options.max_iterations = 3;
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(EndReasonName(result.reason), "max_iterations");
  EXPECT_EQ(result.iterations, 3u);
}

TEST(MinimizerTest, EndsAtOnceAtAMinimum) {
  TestFunction test = testing::Quadratic(4, 10.0);
  test.start = test.minimiser;
  LocalRun setup(test, Precision::kDouble);
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(EndReasonName(result.reason), "converged");
  EXPECT_EQ(result.iterations, 0u);
  EXPECT_EQ(result.evaluations, 1u);
}

TEST(MinimizerTest, TheGradientToleranceGrowsWithTheParameters) {
  TestFunction test = testing::Quadratic(4, 1.0);
  // |w| = 2000, |g| = 1998: converged where the tolerance is one.
  test.start.assign(4, 1000.0);
  LocalRun setup(test, Precision::kDouble);
  setup.options.tolerances.gradient = 1.0;
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(result.iterations, 0u);
}

TEST(MinimizerTest, ReportsAndPublishesEveryAcceptedPoint) {
  LocalRun setup(testing::Rosenbrock(2), Precision::kDouble);
  std::vector<IterationReport> reports;
  setup.observer = [&](const IterationReport& report) {
    const std::span<const double> w = *setup.space.Read(report.w);
    if (report.iteration > 0) {
      EXPECT_EQ(setup.space.parameters(), std::vector<double>(w.begin(), w.end()));
    }
    std::vector<double> g(2);
    EXPECT_EQ(testing::Rosenbrock(2).function(w, g), report.f);
    EXPECT_DOUBLE_EQ(std::hypot(g[0], g[1]), report.gradient_norm);
    reports.push_back(report);
    return true;
  };
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  ASSERT_EQ(reports.size(), result.iterations + 1);
  EXPECT_EQ(reports[0].step_length, 0.0);
  EXPECT_EQ(reports[0].evaluations, 1u);
  for (size_t i = 1; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].iteration, i);
    EXPECT_LT(reports[i].f, reports[i - 1].f);
    EXPECT_GT(reports[i].step_length, 0.0);
    EXPECT_GT(reports[i].evaluations, reports[i - 1].evaluations);
  }
  EXPECT_EQ(reports.back().f, result.f);
  EXPECT_EQ(reports.back().evaluations, result.evaluations);
}

// The costs that minimizer.h states.
TEST(MinimizerTest, KeepsRoundTripsAndVectorsFew) {
  constexpr uint32_t kPairs = 3;
  LocalRun setup(testing::Rosenbrock(20), Precision::kDouble);
  uint64_t last_rounds = 0;
  uint64_t last_evaluations = 0;
  setup.observer = [&](const IterationReport& report) {
    const uint64_t evaluations = report.evaluations - last_evaluations;
    if (report.iteration > 0) {
      // The objective's own are 2: it looks at w by itself.
      EXPECT_EQ(report.round_trips - last_rounds, 2 * evaluations + 2);
    }
    last_rounds = report.round_trips;
    last_evaluations = report.evaluations;
    return true;
  };
  {
    LbfgsDirection direction(&setup.space, kPairs);
    ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
    EXPECT_EQ(result.reason, EndReason::kConverged);
    EXPECT_LE(setup.space.peak_vectors(), 2 * kPairs + 6);
    ASSERT_OK(setup.space.Flush());
    EXPECT_EQ(setup.space.live_vectors(), 1u) << "only the result is left";
  }
  ASSERT_OK(setup.space.Flush());
  EXPECT_EQ(setup.space.live_vectors(), 0u);
}

TEST(MinimizerTest, CommandsStaySmallAtHistoryTen) {
  class Measuring : public LocalVectorSpace {
   public:
    using LocalVectorSpace::LocalVectorSpace;
    size_t largest = 0;

   protected:
    absl::StatusOr<std::vector<double>> Execute(VectorRequest request) override {
      // What a space of shards adds.
      request.set_job(std::string(68, 'j'));
      request.set_op_id(1u << 30);
      request.set_shard_epoch(~uint64_t{0});
      largest = std::max(largest, request.ByteSizeLong());
      return LocalVectorSpace::Execute(std::move(request));
    }
  };
  const TestFunction test = testing::Quadratic(100, 1e4);
  Measuring space(test.start.size(), Precision::kDouble);
  OwnedVector start = OwnedVector::New(&space, "w");
  ASSERT_OK(space.Write(start.name(), test.start));
  FunctionObjective objective(&space, test.function);
  LbfgsDirection direction(&space, kHistory);
  MinimizerOptions options;
  options.max_iterations = 200;
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, Minimize(&space, &objective, &direction,
                                                              options, std::move(start), nullptr));
  EXPECT_EQ(result.iterations, 200u);
  EXPECT_GT(space.largest, 400u);
  EXPECT_LE(space.largest, 640u) << "1 KiB is promised";
}

TEST(MinimizerTest, ConjugateGradientFindsRosenbrocksMinimum) {
  for (const Precision precision : {Precision::kDouble, Precision::kFloat32}) {
    const TestFunction test = testing::Rosenbrock(100);
    LocalRun setup(test, precision);
    setup.options.max_iterations = 500;
    ConjugateGradient direction(&setup.space);
    ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
    EXPECT_EQ(EndReasonName(result.reason), "converged") << result.line_search_failure;
    EXPECT_LE(setup.Distance(result, test), 1e-3);
  }
}

TEST(MinimizerTest, ConjugateGradientAndGradientDescentFindAQuadraticsMinimum) {
  const TestFunction test = testing::Quadratic(50, 100.0);
  LocalRun cg(test, Precision::kDouble);
  ConjugateGradient conjugate(&cg.space);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult cg_result, cg.Minimize(&conjugate));
  EXPECT_EQ(cg_result.reason, EndReason::kConverged);
  EXPECT_LE(cg.Distance(cg_result, test), 1e-3);

  LocalRun gd(test, Precision::kDouble);
  gd.options.max_iterations = 2000;
  GradientDescent descent(&gd.space);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult gd_result, gd.Minimize(&descent));
  EXPECT_EQ(gd_result.reason, EndReason::kConverged);
  EXPECT_LE(gd.Distance(gd_result, test), 1e-3);
  EXPECT_LT(2 * cg_result.iterations, gd_result.iterations) << "conjugacy is worth something";
}

TEST(MinimizerTest, ConjugateGradientTightensTheCurvatureConstant) {
  LocalVectorSpace space(1, Precision::kDouble);
  const ConjugateGradient conjugate(&space);
  EXPECT_EQ(conjugate.CurvatureConstant(0.9), 0.1);
  EXPECT_EQ(conjugate.CurvatureConstant(0.05), 0.05);
  const LbfgsDirection lbfgs(&space, 1);
  EXPECT_EQ(lbfgs.CurvatureConstant(0.9), 0.9);
}

// ---- what goes wrong ----

TEST(MinimizerTest, ANonFiniteEvaluationShortensTheStep) {
  // x - log(x) / 2, with a wall at 0 and the minimum at 0.5: the first step, 1 / |g|,
  // passes the wall.
  TestFunction test{.name = "barrier", .start = {0.9}, .minimiser = {0.5}};
  test.function = [](std::span<const double> x, std::span<double> g) {
    g[0] = 1.0 - 0.5 / x[0];
    return x[0] > 0.0 ? x[0] - 0.5 * std::log(x[0]) : kInfinity;
  };
  LocalRun setup(test, Precision::kDouble);
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(result.reason, EndReason::kConverged);
  EXPECT_LE(setup.Distance(result, test), 1e-4);
  EXPECT_THAT(setup.objective.values(), ::testing::Contains(kInfinity));
}

TEST(MinimizerTest, RefusesAStartThatIsNotFinite) {
  TestFunction test{.name = "nan", .start = {1.0}, .minimiser = {0.0}};
  test.function = [](std::span<const double>, std::span<double>) { return std::nan(""); };
  LocalRun setup(test, Precision::kDouble);
  LbfgsDirection direction(&setup.space, kHistory);
  EXPECT_THAT(setup.Minimize(&direction).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("initial parameters")));
}

TEST(MinimizerTest, AGradientThatPointsUphillFailsTheLineSearch) {
  TestFunction test = testing::Quadratic(5, 10.0);
  const TestFunction right = test;
  test.function = [&](std::span<const double> x, std::span<double> g) {
    const double f = right.function(x, g);
    for (double& value : g) {
      value = -value;
    }
    return f;
  };
  LocalRun setup(test, Precision::kFloat32);
  LbfgsDirection direction(&setup.space, kHistory);
  ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
  EXPECT_EQ(EndReasonName(result.reason), "line_search_failed");
  EXPECT_EQ(result.iterations, 0u);
  EXPECT_EQ(result.restarts, 0u) << "the direction was -g already";
  EXPECT_FALSE(result.line_search_failure.empty());
}

// Answers a useless direction after some iterations, as long as it is not reset.
class Astray : public Direction {
 public:
  Astray(Direction* inner, double sign) : inner_(inner), sign_(sign) {}
  absl::StatusOr<SearchDirection> Next(std::optional<Move> move, const Point& at) override {
    ASSIGN_OR_RETURN(SearchDirection direction, inner_->Next(std::move(move), at));
    if (++calls_ == 4) {
      // The slope is a lie: the search fails, or the direction does not descend.
      direction.g_dot_d *= sign_;
    }
    return direction;
  }
  void Reset() override {
    ++resets;
    inner_->Reset();
  }
  int resets = 0;

 private:
  Direction* inner_;
  double sign_;
  int calls_ = 0;
};

TEST(MinimizerTest, AFailedLineSearchDropsTheHistoryAndGoesOnFromMinusG) {
  for (const double sign : {-1.0, 1e9}) {
    const TestFunction test = testing::Rosenbrock(10);
    LocalRun setup(test, Precision::kDouble);
    LbfgsDirection inner(&setup.space, kHistory);
    Astray direction(&inner, sign);
    ASSERT_OK_AND_ASSIGN(const MinimizerResult result, setup.Minimize(&direction));
    EXPECT_EQ(result.reason, EndReason::kConverged) << result.line_search_failure;
    EXPECT_EQ(result.restarts, 1u);
    EXPECT_EQ(direction.resets, 2) << "one for the failure, one at the end";
    EXPECT_LE(setup.Distance(result, test), 1e-4);
  }
}

// s = (1e160, 0), y = (1e-155, 0): the scale y.s / y.y of H_0 overflows.
TEST(MinimizerTest, AnOverflowOfTheRecursionDoesNotDescend) {
  LocalVectorSpace space(2, Precision::kDouble);
  LbfgsDirection direction(&space, kHistory);
  const auto vector = [&space](double first, double second) {
    OwnedVector owned = OwnedVector::New(&space, "v");
    EXPECT_OK(space.Write(owned.name(), std::vector<double>{first, second}));
    return owned;
  };
  Move move{.from = {.w = vector(0.0, 0.0), .g = vector(1e-150, 1.0)}, .step = 1.0};
  const Point at{.w = vector(1e160, 0.0), .g = vector(1e-150 + 1e-155, 1.0), .g_dot_g = 1.0};
  ASSERT_OK_AND_ASSIGN(const SearchDirection answer, direction.Next(std::move(move), at));
  ASSERT_EQ(direction.history().size(), 1u);
  EXPECT_TRUE(std::isnan(answer.g_dot_d));
  direction.Reset();
  ASSERT_OK_AND_ASSIGN(const SearchDirection again, direction.Next(std::nullopt, at));
  EXPECT_EQ(again.g_dot_d, -1.0);
}

TEST(MinimizerTest, ErrorsOfSpaceObjectiveAndObserverPassThrough) {
  class Cancelling : public LocalVectorSpace {
   public:
    using LocalVectorSpace::LocalVectorSpace;
    int left = 0;

   protected:
    absl::StatusOr<std::vector<double>> Execute(VectorRequest request) override {
      return left-- > 0 ? LocalVectorSpace::Execute(std::move(request))
                        : absl::CancelledError("job demo-1 was cancelled");
    }
  };
  const TestFunction test = testing::Rosenbrock(2);
  for (int rounds = 0; rounds < 40; ++rounds) {
    Cancelling space(2, Precision::kDouble);
    space.left = rounds;
    OwnedVector start = OwnedVector::New(&space, "w");
    ASSERT_OK(space.Write(start.name(), test.start));
    FunctionObjective objective(&space, test.function);
    LbfgsDirection direction(&space, kHistory);
    EXPECT_THAT(Minimize(&space, &objective, &direction, {}, std::move(start), nullptr).status(),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("job demo-1")))
        << rounds;
  }
  LocalRun setup(test, Precision::kDouble);
  setup.observer = [](const IterationReport& report) -> absl::StatusOr<bool> {
    if (report.iteration < 2) {
      return true;
    }
    return absl::AbortedError("shard 1 restarted");
  };
  LbfgsDirection direction(&setup.space, kHistory);
  EXPECT_THAT(setup.Minimize(&direction).status(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("shard 1")));
}

TEST(MinimizerTest, RefusesOptionsOutOfRange) {
  const auto refused = [](auto change) {
    MinimizerOptions options;
    change(options);
    return ValidateMinimizerOptions(options);
  };
  const auto invalid = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_OK(ValidateMinimizerOptions({}));
  EXPECT_THAT(refused([](auto& o) { o.line_search.c1 = 0.5; }), invalid("c1"));
  EXPECT_THAT(refused([](auto& o) { o.line_search.c2 = 1.0; }), invalid("c2"));
  EXPECT_THAT(refused([](auto& o) { o.line_search.c2 = 1e-5; }), invalid("c2"));
  EXPECT_THAT(refused([](auto& o) { o.line_search.max_evaluations = 0; }),
              invalid("max_evaluations"));
  EXPECT_THAT(refused([](auto& o) { o.tolerances.gradient = -1.0; }), invalid("tolerance"));
}

}  // namespace
}  // namespace monsoon
