#include "worker/command_line.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/config/job.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

constexpr uint32_t kNoTask = UINT32_MAX;

constexpr char kUsage[] =
    "worker --cluster=FILE --task=N [flags]\n"
    "Runs replicas of the jobs that the coordinator gives it.\n"
    "\n"
    "worker --evaluate --model=model.npz --job=FILE [--threads=N]\n"
    "Evaluates a model file on the job's test set in this process and prints JSON.";

}  // namespace

absl::StatusOr<WorkerCommand> ReadWorkerCommand(std::span<const char* const> args) {
  WorkerCommand command;
  const char* environment = std::getenv("MONSOON_CLUSTER");
  std::string cluster_file =
      environment != nullptr ? environment : "configs/cluster/localhost.textproto";
  std::string fault;
  std::string job_file;
  uint32_t task = kNoTask;
  bool evaluate = false;
  bool json = true;              // what --evaluate prints in any case
  bool die_with_parent = false;  // main looked at it before
  FlagSet flags(kUsage);
  flags.SetSuggest(DidYouMeanFlag);
  flags.Add("cluster", &cluster_file, "the cluster file (or MONSOON_CLUSTER)");
  flags.Add("task", &task, "which worker of the cluster file this is, from 0");
  flags.Add("address", &command.worker.address, "listen here instead of the file's address");
  flags.Add("port_file", &command.port_file, "write the address here once it is served");
  flags.Add("insecure", &command.worker.insecure, "allow an address that others can reach");
  flags.Add("fault", &fault,
            "faults for tests: delay_ms=20,drop=0.01,seed=1,compute_delay_ms=30,"
            "break_device_after=100");
  AddLogFlags(&flags, &command.log);
  flags.Add("die_with_parent", &die_with_parent, "end when the parent process ends");
  flags.Add("evaluate", &evaluate, "evaluate a model file and exit");
  flags.Add("model", &command.model, "with --evaluate: the .npz file");
  flags.Add("job", &job_file, "with --evaluate: the job file");
  flags.Add("threads", &command.threads, "with --evaluate: compute threads");
  flags.Add("json", &json, "with --evaluate: print JSON, as it always does");
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  if (flags.help_wanted()) {
    command.kind = WorkerCommand::Kind::kHelp;
    command.help = flags.Help();
    return command;
  }
  if (!rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest[0], "\""));
  }
  if (evaluate) {
    command.kind = WorkerCommand::Kind::kEvaluate;
    if (command.model.empty() || job_file.empty() || command.threads == 0) {
      return absl::InvalidArgumentError(
          "--evaluate needs --model=FILE and --job=FILE, and --threads of at least 1");
    }
    ASSIGN_OR_RETURN(command.job, LoadJob(job_file));
    return command;
  }
  ASSIGN_OR_RETURN(command.worker.fault, ParseFaultOptions(fault));
  ASSIGN_OR_RETURN(LoadedCluster loaded, LoadCluster(cluster_file));
  if (task == kNoTask) {
    return absl::InvalidArgumentError(
        absl::StrCat("--task=N is missing: which worker of ", cluster_file, " is this? It has ",
                     ListAddresses("worker", loaded.cluster.worker())));
  }
  command.worker.task = task;
  command.worker.cluster = std::move(loaded.cluster);
  return command;
}

}  // namespace monsoon
