// `up` alone, without the rest of the coordinator's binary: what up_test runs.
//
//   up_test_main CLUSTER BIN_DIR [never|workers|all|impatient|impatient-workers] [--quiet]

#include <cstdio>
#include <cstring>
#include <string>

#include "common/config/cluster.h"
#include "common/process/die_with_parent.h"
#include "coordinator/launcher/up.h"

int main(int argc, char** argv) {
  monsoon::DieWithParent();
  if (argc < 3) {
    return 2;
  }
  const absl::StatusOr<monsoon::LoadedCluster> cluster = monsoon::LoadCluster(argv[1]);
  if (!cluster.ok()) {
    fprintf(stderr, "%s\n", std::string(cluster.status().message()).c_str());
    return 2;
  }
  monsoon::UpOptions options;
  options.plan = {.cluster_path = argv[1], .bin_dir = argv[2]};
  const std::string policy = argc > 3 ? argv[3] : "never";
  const bool impatient = policy.starts_with("impatient");
  options.supervisor.restart = policy == "all"               ? monsoon::RestartPolicy::kAll
                               : policy.ends_with("workers") ? monsoon::RestartPolicy::kWorkers
                                                             : monsoon::RestartPolicy::kNever;
  options.supervisor.quiet = argc > 4 && strcmp(argv[4], "--quiet") == 0;
  // Short, so that a test of what does not answer ends soon.
  options.supervisor.stop_timeout = absl::Milliseconds(300);
  options.supervisor.ready_timeout = absl::Seconds(policy == "impatient" ? 1 : impatient ? 3 : 20);
  options.supervisor.shard_loss_grace = absl::Milliseconds(50);
  options.supervisor.first_backoff = absl::Milliseconds(10);
  return monsoon::RunUp(cluster->cluster, options);
}
