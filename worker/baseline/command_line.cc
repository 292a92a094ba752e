#include "worker/baseline/command_line.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

constexpr uint32_t kMaxThreads = 1024;

absl::Status UsageError(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("baseline: ", message));
}

}  // namespace

absl::StatusOr<BaselineCommand> ReadBaselineCommand(std::span<const char* const> args) {
  BaselineCommand command;
  LoadOptions load;
  std::string job_file;
  std::string epochs;
  FlagSet flags("baseline --job=FILE [flags]\nTrains a Downpour job in one process.");
  flags.SetSuggest(DidYouMeanFlag);
  flags.Add("job", &job_file, "the job file (protobuf text)");
  flags.Add("epochs", &epochs, "the same as --set=stop.epochs=N");
  flags.Add("threads", &command.threads, "compute threads");
  flags.Add("set", &load.overrides, "PATH=VALUE changes the job, as in seed=3; may be repeated");
  flags.Add("json", &command.json, "one JSON object at the end, lines to the standard error");
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(args);
  if (!rest.ok()) {
    return UsageError(rest.status().message());
  }
  if (flags.help_wanted()) {
    command.help = flags.Help();
    return command;
  }
  if (!rest->empty()) {
    return UsageError(absl::StrCat("unexpected argument \"", rest->front(), "\""));
  }
  if (job_file.empty()) {
    return UsageError("--job=FILE is missing, as in --job=configs/job/lenet_downpour.textproto");
  }
  if (command.threads == 0 || command.threads > kMaxThreads) {
    return UsageError(
        absl::StrCat("--threads=", command.threads, ": the value must be 1 to ", kMaxThreads));
  }
  if (!epochs.empty()) {
    load.overrides.push_back(absl::StrCat("stop.epochs=", epochs));
  }
  ASSIGN_OR_RETURN(command.job, LoadJob(job_file, load));
  return command;
}

}  // namespace monsoon
