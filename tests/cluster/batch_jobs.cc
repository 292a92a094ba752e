#include "tests/cluster/batch_jobs.h"

#include "common/base/check.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon::testing {

Job BatchJob(uint32_t contributions, uint32_t iterations) {
  constexpr uint32_t kExamplesPerContribution = 16;
  Job job = SyntheticJob(uint64_t{contributions} * kExamplesPerContribution, 0);
  job.clear_downpour();
  job.clear_stop();
  job.clear_test();
  job.set_batch_size(kExamplesPerContribution);
  job.mutable_model()->clear_layer();
  job.mutable_model()->add_layer()->mutable_dense()->set_units(5);
  job.mutable_train()->mutable_synthetic()->set_noise(3.0);
  Sandblaster* const sandblaster = job.mutable_sandblaster();
  sandblaster->set_max_iterations(iterations);
  sandblaster->set_l2(1e-3);
  sandblaster->set_gradient_tolerance(1e-9);
  sandblaster->set_chunks_per_contribution(1);
  return job;
}

std::vector<TracePoint> TraceOf(const JobDescription& description) {
  std::vector<TracePoint> trace;
  for (const JobDescription::Iteration& point : description.sandblaster().trace()) {
    trace.push_back({point.f(), point.gradient_norm(), point.step_length(), point.evaluations()});
  }
  return trace;
}

double SecondsPerEvaluation(const JobDescription& description) {
  const auto& trace = description.sandblaster().trace();
  CHECK(trace.size() >= 2);
  const JobDescription::Iteration& first = trace[0];
  const JobDescription::Iteration& last = trace[trace.size() - 1];
  return (last.elapsed_s() - first.elapsed_s()) /
         static_cast<double>(last.evaluations() - first.evaluations());
}

}  // namespace monsoon::testing
