#include "coordinator/cli/cli.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

const Command* Find(std::span<const Command> commands, absl::string_view name) {
  for (const Command& command : commands) {
    if (name == command.name) {
      return &command;
    }
  }
  return nullptr;
}

std::string Overview(std::span<const Command> commands, const std::string& program) {
  std::string text = absl::StrCat(
      "usage: ", program,
      " VERB [arguments]\n\n"
      "Trains neural networks on a cluster of parameter servers and workers.\n\nverbs:\n");
  for (const Command& command : commands) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", command.name, command.summary);
  }
  absl::StrAppend(&text,
                  "\nfor example:\n"
                  "  ",
                  program, " up &\n  ", program,
                  " submit configs/job/lenet_downpour.textproto --watch\n\n`", program,
                  " VERB --help` tells flags and examples of a verb.\n"
                  "exit codes: 0 ok, 1 job failed or cancelled, 2 usage or configuration,\n"
                  "3 cluster not reachable, 4 timeout, 5 data error, 130 interrupted,\n"
                  "143 terminated\n");
  return text;
}

int UnknownVerb(std::span<const Command> commands, absl::string_view name,
                const Environment& environment) {
  std::vector<std::string> names = {"help"};
  for (const Command& command : commands) {
    names.emplace_back(command.name);
  }
  const std::string hint = DidYouMean(std::string(name), names);
  *environment.err << environment.program << ": there is no verb \"" << std::string(name) << "\""
                   << (hint.empty() ? "" : "; ") << hint << "\nsee: " << environment.program
                   << " help\n";
  return kExitUsage;
}

}  // namespace

int RunCli(std::span<const Command> commands, std::span<const char* const> args,
           Environment* environment) {
  if (args.empty()) {
    *environment->err << Overview(commands, environment->program);
    return kExitUsage;
  }
  const absl::string_view verb = args[0];
  if (verb == "help" || verb == "--help" || verb == "-h") {
    if (args.size() == 1) {
      *environment->out << Overview(commands, environment->program);
      return kExitOk;
    }
    const Command* command = Find(commands, args[1]);
    if (command == nullptr) {
      return UnknownVerb(commands, args[1], *environment);
    }
    static constexpr const char* kHelp[] = {"--help"};
    Invocation call(*command, kHelp, environment);
    return command->run(call);
  }
  const Command* command = Find(commands, verb == "--version" ? "version" : verb);
  if (command == nullptr) {
    return UnknownVerb(commands, verb, *environment);
  }
  Invocation call(*command, args.subspan(1), environment);
  return command->run(call);
}

}  // namespace monsoon
