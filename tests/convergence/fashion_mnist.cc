#include "tests/convergence/fashion_mnist.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "tests/cluster/test_cluster.h"
#include "worker/baseline/trainer.h"

namespace monsoon::testing {

absl::StatusOr<Job> Preset(const std::string& name, const std::vector<std::string>& overrides) {
  LoadOptions options;
  options.overrides = overrides;
  return LoadJob(absl::StrCat("configs/job/", name, "_downpour.textproto"), options);
}

absl::StatusOr<JobDescription> TrainOnCluster(const Job& job, int workers, absl::Duration timeout) {
  TestCluster cluster({.shards = 1, .workers = workers, .heartbeat_ms = 500});
  RETURN_IF_ERROR(cluster.Start());
  ASSIGN_OR_RETURN(const std::string id, cluster.Submit(job));
  return cluster.AwaitEnd(id, timeout);
}

absl::StatusOr<double> TrainInOneProcess(const Job& job) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Create(job, {}));
  ASSIGN_OR_RETURN(const TrainingReport report, trainer->Run([](const TrainingReport&) {}));
  if (!report.test_accuracy.has_value()) {
    return absl::InternalError("the trainer did not evaluate");
  }
  return *report.test_accuracy;
}

double StaleShare(const JobDescription& description) {
  uint64_t all = 0;
  uint64_t fresh = 0;
  for (const auto& [staleness, pushes] : description.staleness()) {
    all += pushes;
    fresh += staleness == 0 ? pushes : 0;
  }
  return all == 0 ? 0.0 : static_cast<double>(all - fresh) / static_cast<double>(all);
}

}  // namespace monsoon::testing
