#include "worker/command_line.h"

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/flags.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/config/state_dir.h"
#include "common/config/suggest.h"
#include "common/transport/own_tls.h"
#include "proto/cluster.pb.h"

namespace monsoon {
namespace {

constexpr uint32_t kUnset = UINT32_MAX;
// Nobody calls a guest: it listens for probes on its own machine only.
constexpr char kGuestAddress[] = "127.0.0.1:0";

constexpr char kUsage[] =
    "worker --cluster=FILE --task=N [--data=DIR ...] [flags]\n"
    "Runs replicas of the jobs that the coordinator gives it. Without --task, where the\n"
    "cluster file says `open: true`: as one that the file does not list.\n"
    "\n"
    "worker --evaluate --model=model.npz --job=FILE [--threads=N]\n"
    "Evaluates a model on the job's test set in this process and prints JSON.\n"
    "\n"
    "worker --predict --model=model.npz --job=FILE [--data=test|train|PATH...] --out=FILE\n"
    "Writes what a model says of samples, class by class, to a .npy or .csv file.";

// What the flags say of this worker in place of the cluster file; kUnset or "": nothing.
struct SettingFlags {
  uint32_t threads = kUnset;
  uint32_t replicas = kUnset;
  std::string device;
};

absl::Status Override(const SettingFlags& flags, WorkerTask* settings) {
  if (flags.threads != kUnset) {
    settings->set_threads(flags.threads);
  }
  if (flags.replicas != kUnset) {
    settings->set_replicas(flags.replicas);
  }
  Device device = AUTO;
  if (!flags.device.empty()) {
    if (!Device_Parse(absl::AsciiStrToUpper(flags.device), &device)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--device=", flags.device, ": it is AUTO, CPU or CUDA"));
    }
    settings->set_device(device);
  }
  return ValidateWorker(*settings);
}

// Which worker of the cluster this is: a listed one, or a guest.
absl::Status TakeTask(const std::string& cluster_file, uint32_t task, const SettingFlags& flags,
                      WorkerOptions* options) {
  const Cluster& cluster = options->cluster;
  WorkerTask settings;
  if (task != kUnset) {
    options->task = task;
    if (task >= static_cast<uint32_t>(cluster.worker_size())) {
      return absl::OkStatus();  // Worker::Start says so.
    }
    settings = cluster.worker(static_cast<int>(task));
  } else if (cluster.open()) {
    options->guest = RandomId();
    settings.set_address(kGuestAddress);
    FillWorkerDefaults(&settings);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--task=N is missing: which worker of ", cluster_file, " is this? It has ",
                     ListAddresses("worker", cluster.worker()),
                     "; workers that are not listed may join where it says `open: true`"));
  }
  RETURN_IF_ERROR(Override(flags, &settings));
  options->settings = std::move(settings);
  return absl::OkStatus();
}

// What --evaluate and --predict ask of the flags; loads the model and the job.
absl::Status TakeLocalRun(const std::string& model, const std::string& job_file,
                          WorkerCommand* command) {
  const bool predict = command->kind == WorkerCommand::Kind::kPredict;
  if (model.empty() || command->threads == 0 || (predict && command->predict.out.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(predict ? "--predict" : "--evaluate", " needs --model=PATH, ",
                     predict ? "--out=FILE, " : "", "and --threads of at least 1"));
  }
  command->predict.threads = static_cast<int>(command->threads);
  ASSIGN_OR_RETURN(
      command->model,
      LoadLocalModel(model, job_file, !predict || !IsOfFilesOnly(command->predict.data)));
  return absl::OkStatus();
}

// What stands on the command line beside what WorkerCommand holds.
struct GivenFlags {
  std::string cluster_file;
  std::string fault;
  std::string model;
  std::string job_file;
  uint32_t task = kUnset;
  SettingFlags settings;
  bool version = false;
  bool evaluate = false;
  bool predict = false;
  bool json = true;              // what --evaluate and --predict print in any case
  bool die_with_parent = false;  // main looked at it before
};

void AddFlags(FlagSet* flags, GivenFlags* given, WorkerCommand* command) {
  flags->Add("cluster", &given->cluster_file, "the cluster file (or MONSOON_CLUSTER)");
  flags->Add("task", &given->task, "which worker of the cluster file this is, from 0");
  flags->Add("address", &command->worker.address, "listen here instead of the file's address");
  flags->Add("threads", &given->settings.threads,
             "compute threads of each replica, in place of the file's; or of --evaluate and "
             "--predict");
  flags->Add("replicas", &given->settings.replicas, "replicas, in place of the file's");
  flags->Add("device", &given->settings.device, "AUTO, CPU or CUDA, in place of the file's");
  flags->Add("port_file", &command->port_file, "write the address here once it is served");
  flags->Add("insecure", &command->worker.insecure, "allow an address that others can reach");
  flags->Add("fault", &given->fault,
             "faults for tests: delay_ms=20,drop=0.01,seed=1,compute_delay_ms=30,"
             "break_device_after=100");
  AddLogFlags(flags, &command->log);
  flags->Add("die_with_parent", &given->die_with_parent, "end when the parent process ends");
  flags->Add("version", &given->version, "print what this binary is and exit");
  flags->Add("evaluate", &given->evaluate, "evaluate a model and exit");
  flags->Add("predict", &given->predict, "write what a model says of samples, and exit");
  flags->Add("model", &given->model,
             "with --evaluate and --predict: a model file (.npz, .safetensors), or a job's folder "
             "of checkpoints");
  flags->Add("job", &given->job_file,
             "with --evaluate and --predict: the job file; of a checkpoint: in place of its own");
  flags->Add("json", &given->json, "with --evaluate and --predict: print JSON, as they always do");
  flags->Add("data", &command->predict.data,
             "a folder below which files of jobs are opened, in place of the file's data_roots, or "
             "none; with --predict: test, train, or a file of samples; may be repeated");
  flags->Add("out", &command->predict.out, "with --predict: the .npy or .csv file to write");
}

}  // namespace

absl::StatusOr<WorkerCommand> ReadWorkerCommand(std::span<const char* const> args) {
  WorkerCommand command;
  GivenFlags given;
  const char* environment = std::getenv("MONSOON_CLUSTER");
  given.cluster_file = environment != nullptr ? environment : "configs/cluster/localhost.textproto";
  FlagSet flags(kUsage);
  flags.SetSuggest(DidYouMeanFlag);
  AddFlags(&flags, &given, &command);
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  if (flags.help_wanted()) {
    command.kind = WorkerCommand::Kind::kHelp;
    command.help = flags.Help();
    return command;
  }
  if (given.version) {
    command.kind = WorkerCommand::Kind::kVersion;
    return command;
  }
  if (!rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest[0], "\""));
  }
  if (given.evaluate && given.predict) {
    return absl::InvalidArgumentError("--evaluate and --predict are two things: give one");
  }
  if (given.evaluate || given.predict) {
    command.threads = given.settings.threads == kUnset ? 1 : given.settings.threads;
    command.kind = given.evaluate ? WorkerCommand::Kind::kEvaluate : WorkerCommand::Kind::kPredict;
    RETURN_IF_ERROR(TakeLocalRun(given.model, given.job_file, &command));
    return command;
  }
  command.worker.data_folders = std::move(command.predict.data);
  command.predict.data.clear();
  ASSIGN_OR_RETURN(command.worker.fault, ParseFaultOptions(given.fault));
  ASSIGN_OR_RETURN(LoadedCluster loaded, LoadCluster(given.cluster_file));
  command.worker.cluster = std::move(loaded.cluster);
  RETURN_IF_ERROR(TakeTask(given.cluster_file, given.task, given.settings, &command.worker));
  const Cluster& cluster = command.worker.cluster;
  ASSIGN_OR_RETURN(
      command.worker.tls,
      OwnTls({.cluster = cluster.name(),
              .coordinator = cluster.coordinator().address(),
              .role = Role::kWorker,
              .name = command.worker.guest != 0 ? "" : absl::StrCat(command.worker.task),
              .insecure = command.worker.insecure,
              .founds = IsOfOneMachine(cluster)},
             &SystemEnvironmentVariable));
  // Whoever has joined on another host says himself what jobs may read there.
  command.worker.beside_owner =
      command.worker.tls == nullptr || HasAuthority(cluster.name(), &SystemEnvironmentVariable);
  return command;
}

}  // namespace monsoon
