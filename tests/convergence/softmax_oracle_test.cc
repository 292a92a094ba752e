// Sandblaster L-BFGS on a strongly convex problem, beside liblbfgs (C, doubles):
// softmax regression on the real Fashion-MNIST has one minimum, and both must
// come to it, in about as many evaluations.
#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "common/base/status.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "tests/cluster/test_cluster.h"
#include "tests/convergence/softmax_regression.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using testing::SoftmaxRegression;
using testing::TestCluster;

constexpr char kPreset[] = "configs/job/sandblaster_softmax.textproto";
constexpr uint32_t kFeatures = 784;

absl::StatusOr<std::unique_ptr<SoftmaxRegression>> Objective(const Job& job) {
  ASSIGN_OR_RETURN(const auto source, OpenDataset(job.train(), {{kFeatures}}));
  const size_t examples = source->examples();
  Batch batch(examples, kFeatures);
  std::vector<uint32_t> all(examples);
  std::iota(all.begin(), all.end(), 0u);
  RETURN_IF_ERROR(source->Gather(all, &batch));
  const auto values = batch.inputs.span();
  return std::make_unique<SoftmaxRegression>(std::vector<float>(values.begin(), values.end()),
                                             batch.labels, kFeatures, job.sandblaster().l2());
}

// Sizes and offsets as SoftmaxRegression has them.
bool HasItsLayout(const ParameterLayout& layout) {
  return layout.tensors().size() == 2 && layout.tensors()[0].offset == 0 &&
         layout.tensors()[0].size == SoftmaxRegression::kClasses * kFeatures &&
         layout.tensors()[1].offset == layout.tensors()[0].size &&
         layout.tensors()[1].size == SoftmaxRegression::kClasses;
}

struct Reference {
  const SoftmaxRegression* objective;
  std::vector<double> values;  // F of every evaluation
  double minimum = HUGE_VAL;
  double gradient_norm = HUGE_VAL;  // there
};

lbfgsfloatval_t EvaluateReference(void* instance, const lbfgsfloatval_t* x, lbfgsfloatval_t* g,
                                  int n, lbfgsfloatval_t) {
  auto* reference = static_cast<Reference*>(instance);
  const size_t size = static_cast<size_t>(n);
  const double f = reference->objective->Evaluate({x, size}, {g, size});
  reference->values.push_back(f);
  if (f < reference->minimum) {
    reference->minimum = f;
    reference->gradient_norm = std::sqrt(std::inner_product(g, g + n, g, 0.0));
  }
  return f;
}

// liblbfgs from zero, with the job's history and the Wolfe constants that both
// have as defaults.
Reference RunReference(const SoftmaxRegression& objective, size_t parameters, uint32_t history) {
  Reference reference{&objective, {}};
  const int n = static_cast<int>(parameters);
  lbfgs_parameter_t settings;
  lbfgs_parameter_init(&settings);
  settings.m = static_cast<int>(history);
  settings.linesearch = LBFGS_LINESEARCH_DEFAULT;
  settings.ftol = 1e-4;
  settings.gtol = 0.9;
  settings.epsilon = 3e-7;
  std::unique_ptr<lbfgsfloatval_t, decltype(&lbfgs_free)> x(lbfgs_malloc(n), &lbfgs_free);
  std::fill_n(x.get(), n, 0.0);
  lbfgs(n, x.get(), nullptr, &EvaluateReference, nullptr, &reference, &settings);
  return reference;
}

// Evaluations until the first accepted point at or below `target`.
uint64_t EvaluationsTo(const JobDescription& end, double target) {
  for (const auto& iteration : end.sandblaster().trace()) {
    if (iteration.f() <= target) {
      return iteration.evaluations();
    }
  }
  return UINT64_MAX;
}

TEST(SoftmaxOracleTest, ComesToTheMinimumInAboutAsManyEvaluationsAsLiblbfgs) {
  LoadOptions load;
  // One evaluation on the test set, at the end, is enough.
  load.overrides = {"sandblaster.evaluate_every_iterations=0"};
  ASSERT_OK_AND_ASSIGN(const Job job, LoadJob(kPreset, load));
  ASSERT_EQ(job.sandblaster().l2(), 1e-2);
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
  ASSERT_TRUE(HasItsLayout(layout));

  std::vector<float> parameters;
  JobDescription end;
  {
    TestCluster cluster({.shards = 2, .workers = 2, .heartbeat_ms = 500});
    ASSERT_OK(cluster.Start());
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
    ASSERT_OK_AND_ASSIGN(end, cluster.AwaitEnd(id, absl::Seconds(120)));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
    ASSERT_OK_AND_ASSIGN(parameters, cluster.Parameters(id));
  }

  ASSERT_OK_AND_ASSIGN(const auto objective, Objective(job));
  std::vector<double> w(parameters.begin(), parameters.end());
  std::vector<double> gradient(w.size());
  const double ours = objective->Evaluate(w, gradient);
  const Reference reference = RunReference(*objective, w.size(), job.sandblaster().history());
  const double minimum = reference.minimum;
  // By strong convexity F - min F <= |g|^2 / (2 l2), whatever liblbfgs says.
  ASSERT_LE(reference.gradient_norm * reference.gradient_norm / (2 * job.sandblaster().l2()),
            1e-9 * minimum);

  const double target = minimum * (1 + 1e-5);
  const uint64_t our_evaluations = EvaluationsTo(end, target);
  const auto found = std::find_if(reference.values.begin(), reference.values.end(),
                                  [&](double f) { return f <= target; });
  const auto their_evaluations = found - reference.values.begin() + 1;
  std::printf(
      "minimum %.10f (|g| %.1e, %zu evaluations of liblbfgs); ours %.2e above it, %s after %u "
      "iterations and %lu evaluations; within 1e-5 after %lu evaluations, liblbfgs after %ld\n",
      minimum, reference.gradient_norm, reference.values.size(), ours / minimum - 1,
      end.sandblaster().end_reason().c_str(), end.sandblaster().iteration(),
      end.sandblaster().evaluations(), our_evaluations, their_evaluations);
  EXPECT_LE(ours, minimum * (1 + 1e-6));
  EXPECT_LE(static_cast<double>(our_evaluations), 1.2 * static_cast<double>(their_evaluations));
  // What the job tells is F of what it leaves, up to the replicas' float32.
  EXPECT_NEAR(end.sandblaster().f(), ours, 1e-6 * ours);
}

}  // namespace
}  // namespace monsoon
