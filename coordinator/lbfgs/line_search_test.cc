#include "coordinator/lbfgs/line_search.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Verdict = MoreThuenteSearch::Verdict;
// phi and phi'.
using Phi = std::function<std::pair<double, double>(double)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Outcome {
  Verdict verdict;
  double step;
  double slope;
  uint32_t evaluations;
  std::vector<double> steps;
};

Outcome RunSearch(const Phi& phi, const LineSearchOptions& options, double first_step) {
  const auto [f0, slope0] = phi(0.0);
  MoreThuenteSearch search(options, f0, slope0, first_step);
  Outcome outcome{Verdict::kEvaluate, 0.0, 0.0, 0, {}};
  while (outcome.verdict == Verdict::kEvaluate) {
    outcome.step = search.step();
    outcome.steps.push_back(outcome.step);
    const auto [f, slope] = phi(outcome.step);
    outcome.slope = slope;
    outcome.verdict = search.Report(f, slope);
  }
  outcome.evaluations = search.evaluations();
  return outcome;
}

LineSearchOptions Constants(double c1, double c2) {
  LineSearchOptions options;
  options.c1 = c1;
  options.c2 = c2;
  return options;
}

// ---- the cases of the step, by hand ----

TEST(SafeguardedStepTest, HigherValueTakesTheCubicOrTheMiddle) {
  // phi = (a - 1)^2 from x = 0 to t = 3: quadratic, so both minimisers are 1.
  LinePoint x{0.0, 1.0, -2.0};
  LinePoint y = x;
  bool bracketed = false;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {3.0, 4.0, 4.0}, &bracketed, 0.0, 12.0), 1.0, 1e-15);
  EXPECT_TRUE(bracketed);
  EXPECT_EQ(x.step, 0.0);
  EXPECT_EQ(y.step, 3.0);
  // phi = a^3 - a + 1 has its minimum at 1/sqrt(3), and the quadratic through t = 2
  // has it at 1/4: the cubic is farther from x, so the middle is taken.
  x = y = LinePoint{0.0, 1.0, -1.0};
  bracketed = false;
  const double cubic = 1.0 / std::sqrt(3.0);
  const double quadratic = 0.25;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {2.0, 7.0, 11.0}, &bracketed, 0.0, 10.0),
              (cubic + quadratic) / 2.0, 1e-15);
}

TEST(SafeguardedStepTest, OppositeSlopesTakeTheFartherFromTheTrial) {
  // phi = (a - 1)^2, x = 0, t = 1.5, lower and climbing.
  LinePoint x{0.0, 1.0, -2.0};
  LinePoint y = x;
  bool bracketed = false;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {1.5, 0.25, 1.0}, &bracketed, 0.0, 7.5), 1.0, 1e-15);
  EXPECT_TRUE(bracketed);
  EXPECT_EQ(x.step, 1.5);
  EXPECT_EQ(y.step, 0.0);
}

TEST(SafeguardedStepTest, FlatterSlopeExtrapolatesBySecantWithinTheBounds) {
  // phi = (a - 4)^2, x = 0, t = 1: the secant of the slopes finds 4.
  LinePoint x{0.0, 16.0, -8.0};
  LinePoint y = x;
  bool bracketed = false;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {1.0, 9.0, -6.0}, &bracketed, 0.0, 5.0), 4.0, 1e-14);
  EXPECT_FALSE(bracketed);
  EXPECT_EQ(x.step, 1.0);
  x = y = LinePoint{0.0, 16.0, -8.0};
  EXPECT_EQ(SafeguardedStep(&x, &y, {1.0, 9.0, -6.0}, &bracketed, 0.0, 3.0), 3.0);
  // Bracketed by y at 2: at most 0.66 of the way from t to y.
  x = LinePoint{0.0, 16.0, -8.0};
  y = LinePoint{2.0, 17.0, 1.0};
  bracketed = true;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {1.0, 9.0, -6.0}, &bracketed, 0.0, 2.0), 1.66, 1e-15);
}

TEST(SafeguardedStepTest, SteeperSlopeGoesToTheBoundOrTheCubicWithY) {
  // Steeper descent at t: nothing to interpolate.
  LinePoint x{0.0, 1.0, -1.0};
  LinePoint y = x;
  bool bracketed = false;
  EXPECT_EQ(SafeguardedStep(&x, &y, {1.0, -1.0, -3.0}, &bracketed, 0.0, 5.0), 5.0);
  EXPECT_FALSE(bracketed);
  // phi = (a - 2)^2 at t = 1 and y = 4: the minimiser is 2.
  x = LinePoint{0.0, 1.5, -1.0};
  y = LinePoint{4.0, 4.0, 4.0};
  bracketed = true;
  EXPECT_NEAR(SafeguardedStep(&x, &y, {1.0, 1.0, -2.0}, &bracketed, 0.0, 4.0), 2.0, 1e-15);
  EXPECT_EQ(x.step, 1.0);
  EXPECT_EQ(y.step, 4.0);
}

// ---- the test problems of More and Thuente's paper ----

std::pair<double, double> PaperFunction1(double a) {
  const double beta = 2.0;
  const double q = a * a + beta;
  return {-a / q, (a * a - beta) / (q * q)};
}

std::pair<double, double> PaperFunction2(double a) {
  const double b = a + 0.004;
  return {std::pow(b, 5) - 2.0 * std::pow(b, 4), 5.0 * std::pow(b, 4) - 8.0 * std::pow(b, 3)};
}

std::pair<double, double> PaperFunction3(double a) {
  const double beta = 0.01;
  const double l = 39.0;
  double f, slope;
  if (a <= 1.0 - beta) {
    f = 1.0 - a;
    slope = -1.0;
  } else if (a >= 1.0 + beta) {
    f = a - 1.0;
    slope = 1.0;
  } else {
    f = (a - 1.0) * (a - 1.0) / (2.0 * beta) + beta / 2.0;
    slope = (a - 1.0) / beta;
  }
  const double wave = l * std::numbers::pi / 2.0;
  f += 2.0 * (1.0 - beta) / (l * std::numbers::pi) * std::sin(wave * a);
  slope += (1.0 - beta) * std::cos(wave * a);
  return {f, slope};
}

struct PaperRow {
  double first_step;
  uint32_t evaluations;
  double step;
};

// The numbers of evaluations and the steps of the paper's tables I to III.
void ExpectPaperTable(const Phi& phi, double mu, double eta, const std::vector<PaperRow>& rows,
                      double step_tolerance) {
  for (const PaperRow& row : rows) {
    SCOPED_TRACE(row.first_step);
    const Outcome outcome = RunSearch(phi, Constants(mu, eta), row.first_step);
    EXPECT_EQ(outcome.verdict, Verdict::kAccepted);
    EXPECT_EQ(outcome.evaluations, row.evaluations);
    EXPECT_NEAR(outcome.step, row.step, step_tolerance * row.step);
    const auto [f0, slope0] = phi(0.0);
    const auto [f, slope] = phi(outcome.step);
    EXPECT_LE(f, f0 + mu * outcome.step * slope0);
    EXPECT_LE(std::abs(slope), eta * std::abs(slope0));
  }
}

TEST(MoreThuenteTest, TableIOfThePaper) {
  ExpectPaperTable(PaperFunction1, 1e-3, 0.1,
                   {{1e-3, 6, 1.4}, {1e-1, 3, 1.4}, {1e1, 1, 10.0}, {1e3, 4, 37.0}}, 0.04);
}

TEST(MoreThuenteTest, TableIIOfThePaper) {
  ExpectPaperTable(PaperFunction2, 0.1, 0.1,
                   {{1e-3, 12, 1.6}, {1e-1, 8, 1.6}, {1e1, 8, 1.6}, {1e3, 11, 1.6}}, 0.01);
}

TEST(MoreThuenteTest, TableIIIOfThePaper) {
  ExpectPaperTable(PaperFunction3, 0.1, 0.1,
                   {{1e-3, 12, 1.0}, {1e-1, 12, 1.0}, {1e1, 10, 1.0}, {1e3, 13, 1.0}}, 0.01);
}

// ---- beyond the paper ----

TEST(MoreThuenteTest, AcceptsTheFirstStepThatSatisfiesBoth) {
  const Phi parabola = [](double a) { return std::pair{(a - 1) * (a - 1), 2 * (a - 1)}; };
  const Outcome outcome = RunSearch(parabola, Constants(1e-4, 0.9), 1.0);
  EXPECT_EQ(outcome.verdict, Verdict::kAccepted);
  EXPECT_EQ(outcome.evaluations, 1u);
}

TEST(MoreThuenteTest, TheAuxiliaryFunctionGuidesTheFirstStage) {
  // At 1 phi is lower and still falls, but psi = phi - phi(0) + 0.4 step has risen
  // from 0 to 0.3: the search goes back, where phi alone would extrapolate.
  MoreThuenteSearch search(Constants(0.4, 0.9), 1.0, -1.0, 1.0);
  EXPECT_EQ(search.Report(0.9, -0.1), Verdict::kEvaluate);
  EXPECT_GT(search.step(), 0.0);
  EXPECT_LT(search.step(), 1.0);
}

TEST(MoreThuenteTest, ANonFiniteValueShortensTheStepAndStaysABound) {
  // A barrier at 0.5 and the minimum at 0.4: extrapolation must not pass 0.5.
  const Phi barrier = [](double a) {
    return a >= 0.5 ? std::pair{kInfinity, kInfinity}
                    : std::pair{(a - 0.4) * (a - 0.4), 2 * (a - 0.4)};
  };
  const Outcome outcome = RunSearch(barrier, Constants(1e-4, 0.01), 100.0);
  EXPECT_EQ(outcome.verdict, Verdict::kAccepted);
  EXPECT_NEAR(outcome.step, 0.4, 0.01);
  double bound = kInfinity;
  for (const double step : outcome.steps) {
    EXPECT_LT(step, bound);
    bound = step >= 0.5 ? step : bound;
  }
  const Phi nan_slope = [](double a) {
    return a > 0.1 ? std::pair{0.0, std::nan("")} : std::pair{-a, -1.0};
  };
  EXPECT_LE(RunSearch(nan_slope, Constants(1e-4, 0.9), 1.0).step, 0.25);
}

TEST(MoreThuenteTest, GivesUpWithAReason) {
  LineSearchOptions options = Constants(1e-4, 0.9);
  options.max_evaluations = 5;
  const Phi falling = [](double a) { return std::pair{-a, -1.0}; };
  EXPECT_EQ(RunSearch(falling, options, 1.0).verdict, Verdict::kFailed);
  EXPECT_EQ(RunSearch(falling, options, 1.0).evaluations, 5u);
  options.max_evaluations = 1000;
  options.max_step = 100.0;
  const Outcome unbounded = RunSearch(falling, options, 1.0);
  EXPECT_EQ(unbounded.verdict, Verdict::kFailed);
  EXPECT_EQ(unbounded.step, 100.0);
  const Phi nowhere = [](double a) {
    return a == 0.0 ? std::pair{0.0, -1.0} : std::pair{kInfinity, kInfinity};
  };
  EXPECT_EQ(RunSearch(nowhere, options, 1.0).verdict, Verdict::kFailed);
  // The slope lies: phi climbs.
  const Phi climbing = [](double a) { return std::pair{1.0 + a, -1.0}; };
  MoreThuenteSearch search(Constants(1e-4, 0.9), 1.0, -1.0, 1.0);
  Verdict verdict = Verdict::kEvaluate;
  while (verdict == Verdict::kEvaluate) {
    verdict = search.Report(climbing(search.step()).first, -1.0);
  }
  EXPECT_EQ(verdict, Verdict::kFailed);
  EXPECT_FALSE(search.failure().empty());
  EXPECT_FALSE(search.at_floor());
}

// phi near its minimum, in units of the rounding of f: f is 1 + noise, slopes are
// exact.
TEST(ApproximateWolfeTest, AtTheFloorTheSlopesDecide) {
  LineSearchOptions options = Constants(1e-4, 0.9);
  options.f_floor = 1.2e-7;
  const auto verdict = [&options](double f, double slope, bool* approximate) {
    MoreThuenteSearch search(options, 1.0, -1e-9, 1.0);
    const Verdict result = search.Report(f, slope);
    *approximate = search.accepted_approximately();
    return result;
  };
  bool approximate = false;
  EXPECT_EQ(verdict(1.0 + 1e-7, 1e-10, &approximate), Verdict::kAccepted);
  EXPECT_TRUE(approximate);
  // Sufficient decrease in numbers: the strong conditions do.
  EXPECT_EQ(verdict(1.0 - 1e-7, 1e-10, &approximate), Verdict::kAccepted);
  EXPECT_FALSE(approximate);
  // f rose by more than the floor.
  EXPECT_NE(verdict(1.0 + 1.3e-7, 1e-10, &approximate), Verdict::kAccepted);
  // (2 c1 - 1) phi'(0) is nearly -phi'(0) = 1e-9: overshot.
  EXPECT_NE(verdict(1.0 + 1e-7, 1.001e-9, &approximate), Verdict::kAccepted);
  // Below c2 phi'(0): too short.
  EXPECT_NE(verdict(1.0 + 1e-7, -0.95e-9, &approximate), Verdict::kAccepted);
  options.f_floor = 0.0;
  EXPECT_NE(verdict(1.0 + 1e-7, 1e-10, &approximate), Verdict::kAccepted);
}

TEST(ApproximateWolfeTest, TellsAFailureAtTheFloor) {
  LineSearchOptions options = Constants(1e-4, 0.9);
  options.f_floor = 1.2e-7;
  // What the slopes promise, 5e-10, is lost in noise of twice the floor.
  MoreThuenteSearch search(options, 1.0, -1e-9, 1.0);
  Verdict verdict = Verdict::kEvaluate;
  while (verdict == Verdict::kEvaluate) {
    verdict = search.Report(1.0 + 2.4e-7, -1e-9 * (1.0 - search.step()));
  }
  EXPECT_EQ(verdict, Verdict::kFailed);
  EXPECT_TRUE(search.at_floor());
}

}  // namespace
}  // namespace monsoon
