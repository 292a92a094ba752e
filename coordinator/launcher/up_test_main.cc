// `up` alone, without the rest of the coordinator's binary: what up_test runs.
//
//   up_test_main CLUSTER BIN_DIR POLICY [--quiet]
//
// POLICY: never, workers, all: with short times; impatient, impatient-workers: even less
// for the tasks to listen, and no limit to the deaths; default: as `up` itself is set.

#include <cstdio>
#include <cstring>
#include <string>

#include "common/config/cluster.h"
#include "common/process/die_with_parent.h"
#include "coordinator/launcher/up.h"

int main(int argc, char** argv) {
  monsoon::DieWithParent();
  if (argc < 4) {
    return 2;
  }
  const absl::StatusOr<monsoon::LoadedCluster> cluster = monsoon::LoadCluster(argv[1]);
  if (!cluster.ok()) {
    fprintf(stderr, "%s\n", std::string(cluster.status().message()).c_str());
    return 2;
  }
  monsoon::UpOptions options;
  options.plan = {.cluster_path = argv[1], .bin_dir = argv[2]};
  const std::string policy = argv[3];
  options.supervisor.quiet = argc > 4 && strcmp(argv[4], "--quiet") == 0;
  if (policy == "default") {
    return monsoon::RunUp(cluster->cluster, options);
  }
  const bool impatient = policy.starts_with("impatient");
  options.supervisor.restart = policy == "all"               ? monsoon::RestartPolicy::kAll
                               : policy.ends_with("workers") ? monsoon::RestartPolicy::kWorkers
                                                             : monsoon::RestartPolicy::kNever;
  // Short, so that a test of what does not answer ends soon.
  options.supervisor.worker_stop_timeout = absl::Milliseconds(300);
  options.supervisor.stop_timeout = absl::Milliseconds(500);
  options.supervisor.ready_timeout = absl::Seconds(policy == "impatient" ? 1 : impatient ? 3 : 20);
  options.supervisor.shard_loss_grace = absl::Milliseconds(50);
  options.supervisor.first_backoff = absl::Milliseconds(10);
  options.supervisor.first_worker_backoff = absl::Milliseconds(10);
  if (impatient) {
    options.supervisor.max_deaths_in_a_row = 0;
  }
  return monsoon::RunUp(cluster->cluster, options);
}
