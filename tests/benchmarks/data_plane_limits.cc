// data_plane_limits [--rounds=7] [--quick] [--only=transfer,call,...]: the data
// plane and the optimizer against the machine's limits. Progress goes to the
// standard error, one JSON object to the standard output.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/process/subprocess.h"
#include "tests/benchmarks/workloads.h"

namespace monsoon {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr uint32_t kDefaultMessageMemoryMib = 256;
// Room for 256 streams at the 6 MiB that each may hold, and a quarter more.
constexpr uint32_t kCrowdMessageMemoryMib = 3072;

const std::vector<std::string>& Groups() {
  static const std::vector<std::string>* const groups =
      new std::vector<std::string>{"kernel", "transfer", "secured", "call", "connections"};
  return *groups;
}

struct Command {
  BenchmarkOptions options;
  std::string serve;
  std::vector<std::string> only;
  std::string help;

  bool Wants(const std::string& group) const {
    return std::find(only.begin(), only.end(), group) != only.end();
  }
};

absl::StatusOr<Command> ReadCommand(std::span<const char* const> args) {
  Command command;
  std::string only;
  FlagSet flags("data_plane_limits [flags]\nMeasures the data plane against its limits.");
  flags.Add("rounds", &command.options.rounds, "how often all contenders take a turn");
  flags.Add("quick", &command.options.quick, "short turns, not to be quoted");
  flags.Add("only", &only, absl::StrCat("some of ", absl::StrJoin(Groups(), ",")));
  flags.Add("serve", &command.serve, "be a peer: tcp or bare_calls");
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  if (flags.help_wanted()) {
    command.help = flags.Help();
  }
  if (!rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest.front(), "\""));
  }
  if (command.options.rounds == 0) {
    return absl::InvalidArgumentError("--rounds must be at least 1");
  }
  command.only = Groups();
  if (!only.empty()) {
    command.only = absl::StrSplit(only, ',');
  }
  for (const std::string& group : command.only) {
    if (std::find(Groups().begin(), Groups().end(), group) == Groups().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--only: there is no ", group, ", but ", absl::StrJoin(Groups(), ", ")));
    }
  }
  return command;
}

// Outside `bazel test`, the data lie beside the program.
void FindRunfiles() {
  setenv("TEST_SRCDIR", absl::StrCat(SelfPath(), ".runfiles").c_str(), /*replace=*/0);
  setenv("TEST_WORKSPACE", "monsoon", /*replace=*/0);
}

absl::StatusOr<std::vector<Workload>> Run(const Command& command) {
  // All processes start before the first thread.
  std::unique_ptr<BenchmarkShard> shard, secured, crowded;
  std::unique_ptr<RawTcpPeer> tcp;
  std::unique_ptr<BareCallPeer> call;
  if (command.Wants("transfer")) {
    ASSIGN_OR_RETURN(tcp, RawTcpPeer::Start());
  }
  if (command.Wants("transfer") || command.Wants("secured") || command.Wants("call")) {
    ASSIGN_OR_RETURN(shard, BenchmarkShard::Start(kDefaultMessageMemoryMib));
  }
  if (command.Wants("secured")) {
    ASSIGN_OR_RETURN(secured, BenchmarkShard::Start(kDefaultMessageMemoryMib, /*tls=*/true));
  }
  if (command.Wants("connections")) {
    ASSIGN_OR_RETURN(crowded, BenchmarkShard::Start(kCrowdMessageMemoryMib));
  }
  if (command.Wants("call")) {
    ASSIGN_OR_RETURN(call, BareCallPeer::Start());
  }
  std::vector<Workload> workloads;
  if (command.Wants("kernel")) {
    RETURN_IF_ERROR(RunKernels(command.options, &workloads));
  }
  if (command.Wants("transfer")) {
    RETURN_IF_ERROR(RunTransfers(command.options, shard.get(), tcp.get(), &workloads));
  }
  if (command.Wants("secured")) {
    RETURN_IF_ERROR(RunSecured(command.options, shard.get(), secured.get(), &workloads));
  }
  if (command.Wants("call")) {
    RETURN_IF_ERROR(RunCalls(command.options, shard.get(), call.get(), &workloads));
  }
  if (command.Wants("connections")) {
    RETURN_IF_ERROR(RunConnections(command.options, crowded.get(),
                                   uint64_t{kCrowdMessageMemoryMib} << 20, &workloads));
  }
  return workloads;
}

int Main(std::span<const char* const> args) {
  const absl::StatusOr<Command> command = ReadCommand(args);
  if (!command.ok()) {
    std::fprintf(stderr, "data_plane_limits: %s\n", command.status().ToString().c_str());
    return kUsage;
  }
  if (!command->help.empty()) {
    std::fputs(command->help.c_str(), stdout);
    return 0;
  }
  if (command->serve == "tcp") {
    return ServeRawTcp();
  }
  if (command->serve == "bare_calls") {
    return ServeBareCalls();
  }
  FindRunfiles();
  const absl::StatusOr<std::vector<Workload>> workloads = Run(*command);
  if (!workloads.ok()) {
    std::fprintf(stderr, "data_plane_limits: %s\n", workloads.status().ToString().c_str());
    return kFailed;
  }
  std::printf("%s\n", ToJson(*workloads).c_str());
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::Main(std::span<const char* const>(argv + 1, argv + argc));
}
