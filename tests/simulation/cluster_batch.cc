// ClusterSimulation: the judge of batch jobs.

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/data/access/data_access.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/simulation/cluster_simulation.h"
#include "worker/backend/backend.h"
#include "worker/data/job_data.h"

namespace monsoon::simulation {
namespace {

// F sums floats that were rounded to quanta, of one batch after the other.
constexpr double kRounding = 1e-4;

// F of the whole training set.
absl::StatusOr<double> LossOf(const Job& job, std::span<const float> parameters) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   CreateNetwork(BackendKind::kReference, job.model(), layout, NetworkOptions()));
  ASSIGN_OR_RETURN(const JobData data, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  std::vector<uint32_t> samples(data.train->examples());
  std::iota(samples.begin(), samples.end(), 0u);
  Batch batch(samples.size(), data.train->format());
  RETURN_IF_ERROR(data.train->Gather(samples, &batch));
  batch.examples = samples.size();
  network->SetParameters(parameters);
  ASSIGN_OR_RETURN(const EvaluationResult result, network->Evaluate(batch));
  double squares = 0;
  for (const float w : parameters) {
    squares += static_cast<double>(w) * static_cast<double>(w);
  }
  return result.loss_sum / static_cast<double>(samples.size()) +
         job.sandblaster().l2() / 2 * squares;
}

// All that each iteration came to, bit by bit, and the end.
std::string CourseOf(const JobDescription& job) {
  std::string text;
  for (const JobDescription::Iteration& each : job.sandblaster().trace()) {
    absl::StrAppendFormat(&text, "%d: F %a, |g| %a, step %a, %d evaluations\n", each.iteration(),
                          each.f(), each.gradient_norm(), each.step_length(), each.evaluations());
  }
  return absl::StrCat(text, job.sandblaster().end_reason());
}

}  // namespace

std::vector<float> ClusterSimulation::Parameters() {
  std::vector<float> all;
  for (const auto& ps : ps_) {
    if (!ps->HasSlice()) {
      return {};
    }
    const std::vector<float> slice = ps->Parameters();
    all.insert(all.end(), slice.begin(), slice.end());
  }
  return all;
}

void ClusterSimulation::JudgeBatch(const JobDescription& job) {
  for (const JobDescription::Event& event : job.event()) {
    counts_->batch_returns += event.kind() == "batch_returned" ? 1 : 0;
  }
  std::vector<float> parameters = Parameters();
  if (!HasFeature(world_, Feature::kMemoryOnly)) {
    for (const auto& ps : ps_) {
      ps->Revive();
    }
    const std::vector<float> on_disk = Parameters();
    EXPECT_TRUE(parameters.empty() || parameters == on_disk);
    parameters = on_disk;
  }
  if (parameters.empty()) {
    return;  // a shard was started anew since the end, and kept nothing
  }
  const absl::StatusOr<double> f = LossOf(world_.plan.job, parameters);
  ASSERT_OK(f);
  const double told = job.sandblaster().f();
  ASSERT_NEAR(*f, told, kRounding * std::max(1.0, std::abs(told))) << CourseOf(job);
  if (world_.plan.job.has_downpour()) {
    return;  // whose parameters depend on the order of pushes
  }
  SimulationCounts uncounted;
  ClusterSimulation calm(world_.seed, stacks_, &uncounted, {.calm = true});
  const JobDescription without = calm.Play();
  ASSERT_EQ(CourseOf(job), CourseOf(without));
  ASSERT_EQ(parameters, calm.Parameters());
}

}  // namespace monsoon::simulation
