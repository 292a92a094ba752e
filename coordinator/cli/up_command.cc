#include "coordinator/cli/up_command.h"

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/config/diagnostics.h"
#include "common/config/worker_roots.h"
#include "common/process/own_machine.h"
#include "common/transport/frame/fault.h"
#include "coordinator/launcher/up.h"

namespace monsoon {
namespace {

absl::StatusOr<RestartPolicy> ParseRestart(const std::string& name) {
  if (name == "never") {
    return RestartPolicy::kNever;
  }
  if (name == "workers") {
    return RestartPolicy::kWorkers;
  }
  if (name == "all") {
    return RestartPolicy::kAll;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--restart=", name, ": the value must be never, workers or all"));
}

// What stands on the command line beside what UpOptions holds.
struct GivenFlags {
  std::string restart = RestartPolicyName(SupervisorOptions().restart);
  double backoff_s = 0;
  bool die_with_parent = false;  // main looked at it before
};

void AddFlags(FlagSet* flags, GivenFlags* given, UpOptions* options) {
  flags->Add("restart", &given->restart,
             absl::StrCat("which tasks start again when they die: never, workers, all; "
                          "by default ",
                          given->restart));
  flags->Add("restart_backoff", &given->backoff_s,
             "seconds before the first restart, doubled with each death in a row, up to "
             "30; by default 0.25, of workers 1");
  uint32_t& limit = options->supervisor.max_deaths_in_a_row;
  flags->Add("restart_limit", &limit,
             absl::StrCat("deaths in a row, each before the task has served for 10 s or "
                          "written a checkpoint, after which it is given up; by default ",
                          limit, "; 0: never"));
  flags->Add("bin_dir", &options->plan.bin_dir, "where the three binaries are");
  flags->Add("quiet", &options->supervisor.quiet, "show no lines of the tasks");
  flags->Add("fault", &options->plan.fault,
             "faults for tests, given to each task: delay_ms=20,drop=0.01,seed=1");
  flags->Add("data", &options->plan.data,
             "a folder below which the workers here open files of jobs, in place of the "
             "cluster file's data_roots; may be repeated; or none");
  flags->Add("die_with_parent", &given->die_with_parent, "end when the parent process ends");
}

}  // namespace

int RunUpCommand(Invocation& call) {
  UpOptions options;
  GivenFlags given;
  ClusterFlag cluster(&call);
  AddFlags(&call.flags(), &given, &options);
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  const absl::StatusOr<RestartPolicy> policy = ParseRestart(given.restart);
  if (!policy.ok()) {
    return call.Usage(policy.status().message());
  }
  if (given.backoff_s != 0 && !(given.backoff_s >= 0.01 && given.backoff_s <= 30)) {
    return call.Usage(
        absl::StrCat("--restart_backoff=", given.backoff_s, ": it must be 0.01 .. 30"));
  }
  if (given.backoff_s != 0) {
    options.supervisor.first_backoff = absl::Seconds(given.backoff_s);
    options.supervisor.first_worker_backoff = absl::Seconds(given.backoff_s);
  }
  if (const absl::Status status = ParseFaultOptions(options.plan.fault).status(); !status.ok()) {
    return call.Usage(status.message());
  }
  // The workers would say it too, each by itself.
  if (const absl::Status status = RootsOfWorker(options.plan.data, {}, {}, true).status();
      !status.ok()) {
    return call.Usage(status.message());
  }
  std::vector<Diagnostic> warnings;
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load(&warnings);
  if (!loaded.ok()) {
    call.Fail(loaded.status());
    return kExitUsage;
  }
  for (const Diagnostic& warning : warnings) {
    *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
  }
  const OwnMachine machine = OwnMachine::Look();
  options.plan.is_own_host = [&machine](const std::string& host) { return machine.Is(host); };
  options.supervisor.restart = *policy;
  options.plan.cluster_path = loaded->path;
  options.plan.insecure = call.insecure();
  options.plan.verbosity = call.log().verbosity;
  options.plan.log_file = call.log().file;
  options.plan.self_path = call.env().self_path;
  return RunUp(loaded->cluster, std::move(options));
}

}  // namespace monsoon
