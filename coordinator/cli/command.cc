#include "coordinator/cli/command.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/config/state_dir.h"
#include "common/config/suggest.h"
#include "coordinator/launcher/up_lock.h"

namespace monsoon {
namespace {

constexpr char kDefaultCluster[] = "configs/cluster/localhost.textproto";
// In a command's cluster file: whichever cluster has the coordinator's address.
constexpr char kAnyCluster[] = "*";

// An unreachable coordinator must be named within 5 s.
constexpr absl::Duration kCallDeadline = absl::Seconds(4);

// `relative` in the nearest folder above `file` that has it; "" when none has.
std::string FindAbove(std::string file, const std::string& relative) {
  for (size_t slash = file.rfind('/'); slash != std::string::npos; slash = file.rfind('/')) {
    file.resize(slash);
    const std::string candidate = absl::StrCat(file, "/", relative);
    if (access(candidate.c_str(), R_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

// In quotes where a shell would take it for something else.
std::string ForShell(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("/._-+,:@%", c);
  });
  return plain ? text : absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace

Invocation::Invocation(const Command& command, std::span<const char* const> args,
                       Environment* environment)
    : command_(command),
      args_(args),
      environment_(environment),
      flags_(absl::StrCat(environment->program, " ", command.name,
                          *command.arguments == '\0' ? "" : " ", command.arguments)) {
  flags_.SetSuggest(DidYouMeanFlag);
  AddLogFlags(&flags_, &log_);
}

std::string Invocation::name() const { return absl::StrCat(env().program, " ", command_.name); }

std::string Invocation::CommandLine(absl::string_view command) const {
  return absl::StrCat(env().program, " ", command,
                      cluster_file_.empty() ? "" : " --cluster=", ForShell(cluster_file_));
}

std::string Invocation::Help() const {
  const std::string examples = absl::StrReplaceAll(
      command_.examples, {{"  coordinator ", absl::StrCat("  ", env().program, " ")}});
  return absl::StrCat(command_.summary, "\n\n", flags_.Help(), "\nexamples:\n", examples);
}

std::optional<int> Invocation::Parse(size_t min_positional, size_t max_positional) {
  absl::StatusOr<std::vector<std::string>> positional = flags_.Parse(args_);
  if (!positional.ok()) {
    return Usage(positional.status().message());
  }
  if (flags_.help_wanted()) {
    *env().out << Help();
    return kExitOk;
  }
  positional_ = *std::move(positional);
  if (const absl::Status status = InitLogging("", log_, LogLevel::WARNING); !status.ok()) {
    return Usage(status.message());
  }
  if (positional_.size() < min_positional) {
    return Usage(absl::StrCat("an argument is missing: ", name(), " ", command_.arguments));
  }
  if (positional_.size() > max_positional) {
    return Usage(absl::StrCat("one argument too many: \"", positional_[max_positional], "\""));
  }
  return std::nullopt;
}

int Invocation::Fail(const absl::Status& status) const {
  *env().err << name() << ": " << std::string(status.message())
             << (WasNotReached(status) ? unreachable_hint_ : "") << "\n";
  return ExitCodeOf(status);
}

int Invocation::Usage(absl::string_view message) const {
  *env().err << name() << ": " << std::string(message) << "\nsee: " << name() << " --help\n";
  return kExitUsage;
}

void Invocation::Print(absl::string_view text) const {
  *env().out << std::string(text) << "\n" << std::flush;
}

void Invocation::Note(absl::string_view text) const {
  *env().err << env().program << ": " << std::string(text) << "\n" << std::flush;
}

ClusterFlag::ClusterFlag(Invocation* call) : call_(call) {
  call->flags().Add("cluster", &call->cluster_file(),
                    absl::StrCat("the cluster file; else MONSOON_CLUSTER, else ", kDefaultCluster));
  call->flags().Add("insecure", &call->insecure(),
                    "without credentials, at addresses that others can reach too");
}

absl::StatusOr<LoadedCluster> ClusterFlag::Load(std::vector<Diagnostic>* warnings) const {
  const Environment& env = call_->env();
  const std::string& given = call_->cluster_file();
  std::string path = given.empty() ? env.default_cluster : given;
  if (path.empty()) {
    path = kDefaultCluster;
    if (access(path.c_str(), R_OK) != 0) {
      const std::string called = FindAbove(env.argv0, kDefaultCluster);
      const std::string built = FindAbove(env.self_path, kDefaultCluster);
      path = !called.empty() ? called : !built.empty() ? built : path;
    }
  }
  return LoadCluster(path, /*diagnostics=*/nullptr, {.warnings = warnings});
}

bool ClusterFlag::UpRunsCoordinator() const {
  const Environment& env = call_->env();
  const absl::StatusOr<LoadedCluster> loaded = Load();
  if (!loaded.ok()) {
    return false;
  }
  const absl::StatusOr<std::string> state_dir =
      ResolveStateDir(loaded->cluster, loaded->path, env.variable);
  return state_dir.ok() && !state_dir->empty() && env.is_shared_lock_held(UpLockPath(*state_dir));
}

absl::StatusOr<ClusterFlag::Coordinator> ClusterFlag::Find() const {
  ASSIGN_OR_RETURN(const LoadedCluster cluster, Load());
  const std::string& address = cluster.cluster.coordinator().address();
  call_->SetUnreachableHint(
      IsLoopback(address)
          ? absl::StrCat("; is the cluster up? start it: ", call_->env().program,
                         " up --cluster=", cluster.path)
          : absl::StrCat("; is it running? start it on its machine: ", call_->env().program,
                         " serve --cluster=", cluster.path));
  // A file that was made of an address alone does not know the cluster's name.
  const std::string& name = cluster.cluster.name();
  return Coordinator{address, name == kAnyCluster ? "" : name};
}

absl::StatusOr<std::unique_ptr<JobClient>> ClusterFlag::Connect() const {
  ASSIGN_OR_RETURN(const Coordinator found, Find());
  return call_->env().connect(found.address, kCallDeadline, found.cluster, call_->insecure());
}

absl::StatusOr<std::unique_ptr<MemberClient>> ClusterFlag::ConnectMembers() const {
  ASSIGN_OR_RETURN(const Coordinator found, Find());
  return call_->env().connect_members(found.address, kCallDeadline, found.cluster,
                                      call_->insecure());
}

}  // namespace monsoon
