// The driver beside liblbfgs, an independent implementation (C, doubles), on a
// convex problem: L2 logistic regression.
#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "common/base/random.h"
#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/lbfgs_direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/test_functions.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using testing::FunctionObjective;
using testing::TestFunction;

constexpr int kHistory = 10;

// Mean of log(1 + exp(-label * x . w)) over `samples` + l2 / 2 |w|^2, with features
// of sizes from 1 to 0.03, labels by a random plane with 10 % of them wrong.
TestFunction Logistic(size_t samples, size_t features, double l2) {
  const PhiloxStream values(5, StreamKind::kTest, 1);
  const PhiloxStream plane(5, StreamKind::kTest, 2);
  const PhiloxStream noise(5, StreamKind::kTest, 3);
  auto data = std::make_shared<std::vector<double>>(samples * features);
  auto labels = std::make_shared<std::vector<double>>(samples);
  for (size_t i = 0; i < samples; ++i) {
    double side = 0.0;
    for (size_t j = 0; j < features; ++j) {
      const double size = std::pow(0.03, static_cast<double>(j) / static_cast<double>(features));
      double& value = (*data)[i * features + j];
      value = size * values.Normal(i * features + j);
      side += value * plane.Normal(j);
    }
    (*labels)[i] = (side > 0.0) != (noise.Uniform(i) < 0.1f) ? 1.0 : -1.0;
  }
  TestFunction test{.name = "logistic", .start = std::vector<double>(features, 0.0)};
  test.function = [=](std::span<const double> w, std::span<double> g) {
    double f = 0.0;
    std::fill(g.begin(), g.end(), 0.0);
    for (size_t i = 0; i < samples; ++i) {
      const double* x = data->data() + i * features;
      double margin = 0.0;
      for (size_t j = 0; j < features; ++j) {
        margin += x[j] * w[j];
      }
      margin *= (*labels)[i];
      f += margin > 0.0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
      const double slope = -(*labels)[i] / (1.0 + std::exp(margin));
      for (size_t j = 0; j < features; ++j) {
        g[j] += slope * x[j];
      }
    }
    f /= static_cast<double>(samples);
    for (size_t j = 0; j < features; ++j) {
      g[j] = g[j] / static_cast<double>(samples) + l2 * w[j];
      f += 0.5 * l2 * w[j] * w[j];
    }
    return f;
  };
  return test;
}

struct Reference {
  const TestFunction* test;
  // f of every evaluation, and the points.
  std::vector<double> values;
  std::vector<std::vector<double>> points;
};

lbfgsfloatval_t EvaluateReference(void* instance, const lbfgsfloatval_t* x, lbfgsfloatval_t* g,
                                  int n, lbfgsfloatval_t) {
  auto* reference = static_cast<Reference*>(instance);
  const size_t size = static_cast<size_t>(n);
  const double f = reference->test->function({x, size}, {g, size});
  reference->values.push_back(f);
  reference->points.emplace_back(x, x + n);
  return f;
}

// liblbfgs run to its floor, with the Wolfe constants of `options`.
Reference RunReference(const TestFunction& test, const LineSearchOptions& options) {
  Reference reference{&test, {}, {}};
  const int n = static_cast<int>(test.start.size());
  lbfgs_parameter_t parameters;
  lbfgs_parameter_init(&parameters);
  parameters.m = kHistory;
  parameters.ftol = options.c1;
  parameters.gtol = options.c2;
  parameters.max_linesearch = static_cast<int>(options.max_evaluations);
  parameters.epsilon = 1e-14;
  std::unique_ptr<lbfgsfloatval_t, decltype(&lbfgs_free)> x(lbfgs_malloc(n), &lbfgs_free);
  std::copy(test.start.begin(), test.start.end(), x.get());
  lbfgs(n, x.get(), nullptr, &EvaluateReference, nullptr, &reference, &parameters);
  return reference;
}

size_t EvaluationsTo(const std::vector<double>& values, double target) {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](double f) { return f <= target; });
  return found == values.end() ? std::numeric_limits<size_t>::max()
                               : static_cast<size_t>(found - values.begin()) + 1;
}

class LiblbfgsTest : public ::testing::TestWithParam<LocalVectorSpace::Precision> {};

TEST_P(LiblbfgsTest, ComesNearTheMinimumWithAboutAsManyEvaluations) {
  for (const double l2 : {1e-2, 1e-4}) {
    SCOPED_TRACE(l2);
    const TestFunction test = Logistic(400, 60, l2);
    MinimizerOptions options;
    options.max_iterations = 300;
    options.tolerances.gradient = 1e-12;
    const Reference reference = RunReference(test, options.line_search);
    const double minimum = *std::min_element(reference.values.begin(), reference.values.end());

    LocalVectorSpace space(test.start.size(), GetParam());
    OwnedVector start = OwnedVector::New(&space, "w");
    ASSERT_OK(space.Write(start.name(), test.start));
    FunctionObjective objective(&space, test.function);
    LbfgsDirection direction(&space, kHistory);
    ASSERT_OK_AND_ASSIGN(
        const MinimizerResult result,
        Minimize(&space, &objective, &direction, options, std::move(start), nullptr));

    const double target = minimum * (1.0 + 1e-5);
    const size_t ours = EvaluationsTo(objective.values(), target);
    const size_t theirs = EvaluationsTo(reference.values, target);
    ASSERT_LT(theirs, 200u);
    EXPECT_LE(static_cast<double>(ours), 1.2 * static_cast<double>(theirs));
    EXPECT_NEAR(result.f, minimum, 1e-6 * minimum);
    EXPECT_TRUE(result.reason == EndReason::kConverged ||
                result.reason == EndReason::kFloatPrecision)
        << result.line_search_failure;
    RecordProperty("ours", static_cast<int>(ours));
    RecordProperty("theirs", static_cast<int>(theirs));
  }
}

TEST_P(LiblbfgsTest, TheFirstPointsAgree) {
  const TestFunction test = Logistic(400, 60, 1e-2);
  MinimizerOptions options;
  options.max_iterations = 10;
  const Reference reference = RunReference(test, options.line_search);
  LocalVectorSpace space(test.start.size(), GetParam());
  OwnedVector start = OwnedVector::New(&space, "w");
  ASSERT_OK(space.Write(start.name(), test.start));
  FunctionObjective objective(&space, test.function);
  LbfgsDirection direction(&space, kHistory);
  ASSERT_OK(Minimize(&space, &objective, &direction, options, std::move(start), nullptr).status());
  const double tolerance = GetParam() == LocalVectorSpace::Precision::kDouble ? 1e-9 : 1e-4;
  for (size_t k = 0; k < 8; ++k) {
    for (size_t i = 0; i < test.start.size(); ++i) {
      EXPECT_NEAR(objective.points()[k][i], reference.points[k][i], tolerance)
          << "evaluation " << k << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LiblbfgsTest,
                         ::testing::Values(LocalVectorSpace::Precision::kDouble,
                                           LocalVectorSpace::Precision::kFloat32));

}  // namespace
}  // namespace monsoon
