#include "coordinator/cli/cli.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

bool IsFlag(absl::string_view arg) { return absl::StartsWith(arg, "-"); }

// Flags may stand before the verb: they are put behind it. A flag without "=" may have its
// value behind it, which is no verb then. Without a verb nothing changes.
std::vector<const char*> VerbFirst(std::span<const Command> commands,
                                   std::span<const char* const> args) {
  std::vector<const char*> ordered(args.begin(), args.end());
  for (size_t i = 1; i < args.size() && IsFlag(args[0]); ++i) {
    const absl::string_view before = args[i - 1];
    const bool may_be_value = IsFlag(before) && !absl::StrContains(before, '=');
    const bool known = Find(commands, args[i]) != nullptr || absl::string_view(args[i]) == "help";
    if (!IsFlag(args[i]) && (known || !may_be_value)) {
      std::rotate(ordered.begin(), ordered.begin() + static_cast<ptrdiff_t>(i),
                  ordered.begin() + static_cast<ptrdiff_t>(i) + 1);
      break;
    }
  }
  return ordered;
}

int RunVerb(std::span<const Command> commands, std::span<const char* const> args,
            Environment* environment) {
  if (args.empty()) {
    *environment->err << Overview(commands, environment->program);
    return kExitUsage;
  }
  const absl::string_view verb = args[0];
  if (verb == "help" || verb == "--help" || verb == "-h") {
    if (args.size() == 1 || IsFlag(args[1])) {
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
  if (command == nullptr && IsFlag(verb)) {
    *environment->err << environment->program
                      << ": a verb is missing\nsee: " << environment->program << " help\n";
    return kExitUsage;
  }
  if (command == nullptr) {
    return UnknownVerb(commands, verb, *environment);
  }
  Invocation call(*command, args.subspan(1), environment);
  return command->run(call);
}

// Whether all that was written to the standard output is where it was to go; says if not.
bool WroteAll(const Environment& environment) {
  std::ostream& out = *environment.out;
  const bool failed = !out.good();
  out.clear();
  errno = 0;
  out.flush();
  if (out.good() && !failed) {
    return true;
  }
  *environment.err << environment.program << ": the output could not be written"
                   << (errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno))) << "\n";
  return false;
}

}  // namespace

int RunCli(std::span<const Command> commands, std::span<const char* const> args,
           Environment* environment) {
  const int code = RunVerb(commands, VerbFirst(commands, args), environment);
  // Whoever reads the output, or a script, must not take half of it for all.
  return WroteAll(*environment) || code != kExitOk ? code : kExitData;
}

}  // namespace monsoon
