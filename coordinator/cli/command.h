// One verb of the coordinator's command line, and one call of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/flags.h"
#include "common/base/log_settings.h"
#include "common/config/cluster.h"
#include "common/config/diagnostics.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/exit_code.h"

namespace monsoon {

class Invocation;

struct Command {
  const char* name;
  const char* arguments;  // "JOB --out=FILE"
  const char* summary;    // one line
  const char* examples;   // lines, each with its end
  int (*run)(Invocation& call);
};

// Flags are added, Parse is called, then the command does its work.
class Invocation {
 public:
  // `args` come after the verb. The arguments outlive this object.
  Invocation(const Command& command, std::span<const char* const> args, Environment* environment);

  Environment& env() const { return *environment_; }
  FlagSet& flags() { return flags_; }
  // What every command has beside its own flags; Parse has begun to log by it, with
  // warnings only where nothing was said.
  const LogSettings& log() const { return log_; }

  // The exit code when there is nothing left to do: --help was shown, or the
  // flags or the number of positional arguments are wrong.
  std::optional<int> Parse(size_t min_positional, size_t max_positional);
  const std::vector<std::string>& positional() const { return positional_; }

  // Says why the command cannot go on, and what to do where the coordinator was not
  // reached. Returns the exit code.
  int Fail(const absl::Status& status) const;
  int Usage(absl::string_view message) const;

  // What Fail says to do where the coordinator was not reached.
  void SetUnreachableHint(std::string hint) { unreachable_hint_ = std::move(hint); }

  // Data to the standard output, with a newline.
  void Print(absl::string_view text) const;
  // "coordinator describe", as the user called it.
  std::string name() const;
  // Of --cluster (ClusterFlag); "": it was not given.
  std::string& cluster_file() { return cluster_file_; }
  // Of --insecure (ClusterFlag).
  bool& insecure() { return insecure_; }
  // What to type for `command`, a verb with its arguments, to mean the same cluster:
  // "coordinator watch lenet-1 --cluster=mine.textproto".
  std::string CommandLine(absl::string_view command) const;

  // A message to the standard error: "coordinator: TEXT".
  void Note(absl::string_view text) const;

 private:
  std::string Help() const;

  const Command& command_;
  const std::span<const char* const> args_;
  Environment* const environment_;
  FlagSet flags_;
  LogSettings log_;
  std::vector<std::string> positional_;
  std::string unreachable_hint_;
  std::string cluster_file_;
  bool insecure_ = false;
};

// The flags --cluster and --insecure, and what comes of them.
class ClusterFlag {
 public:
  explicit ClusterFlag(Invocation* call);

  // Whether the flag was given (not only the environment variable).
  bool given() const { return !call_->cluster_file().empty(); }
  // --cluster, else MONSOON_CLUSTER, else configs/cluster/localhost.textproto
  // here or in the repository of this executable.
  // `warnings`, if given, receives what is valid but mostly not meant.
  absl::StatusOr<LoadedCluster> Load(std::vector<Diagnostic>* warnings = nullptr) const;
  // Whether an `up` on this machine runs the cluster's coordinator, which keeps its jobs:
  // should it not be there, it is started again.
  bool UpRunsCoordinator() const;
  // A client of the cluster's coordinator. Its calls end within 4 s.
  absl::StatusOr<std::unique_ptr<JobClient>> Connect() const;
  // The same, for tokens and members.
  absl::StatusOr<std::unique_ptr<MemberClient>> ConnectMembers() const;

 private:
  // Where the coordinator is, and the name by which it is asked; sets what Fail says of it.
  struct Coordinator {
    std::string address;
    std::string cluster;
  };
  absl::StatusOr<Coordinator> Find() const;

  Invocation* const call_;
};

}  // namespace monsoon
