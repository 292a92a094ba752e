#include "coordinator/cli/local_worker.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model_file/model_file.h"
#include "coordinator/cli/checkpoint_lookup.h"
#include "coordinator/launcher/task_plan.h"

namespace monsoon {

LocalRun::LocalRun(Invocation* call) : call_(*call), cluster_(call) {
  call->flags().Add("model", &model_,
                    "a model's file, as export writes it; or a job with a checkpoint, or the "
                    "folder that it is in");
  call->flags().Add("job", &job_,
                    "the job file, whose model and data are used; a checkpoint has one of its own");
  call->flags().Add("bin_dir", &bin_dir_, "where the worker's binary is, if not beside this one");
  call->flags().Add("json", &json_, "one JSON object on the standard output");
}

std::optional<int> LocalRun::Check() const {
  if (model_.empty()) {
    return call_.Usage("--model=FILE is missing");
  }
  if (job_.empty() && ModelFormatOf(model_).has_value()) {
    return call_.Usage("--job=FILE is missing");
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<std::string>> LocalRun::Arguments(absl::string_view verb) const {
  ASSIGN_OR_RETURN(const std::string worker, FindBinary("worker", bin_dir_, call_.env().self_path));
  ASSIGN_OR_RETURN(const std::string path,
                   CheckpointLookup(call_.env(), &cluster_).ModelPath(model_));
  std::vector<std::string> arguments = {worker, std::string(verb), absl::StrCat("--model=", path)};
  if (!job_.empty()) {
    arguments.push_back(absl::StrCat("--job=", job_));
  }
  return arguments;
}

std::variant<std::string, int> LocalRun::Run(absl::string_view what, absl::string_view verb,
                                             const std::vector<std::string>& more) const {
  absl::StatusOr<std::vector<std::string>> arguments = Arguments(verb);
  if (!arguments.ok()) {
    return call_.Fail(arguments.status());
  }
  arguments->insert(arguments->end(), more.begin(), more.end());
  const absl::StatusOr<CapturedRun> run = call_.env().run_and_capture(*arguments);
  if (!run.ok()) {
    return call_.Fail(run.status());
  }
  if (!run->end.ok()) {
    // The worker has said why on the standard error, which it shares with us.
    call_.Note(absl::StrCat("the worker's ", what, " ", run->end.Describe()));
    return run->end.signaled ? 128 + run->end.code : run->end.code;
  }
  return std::string(absl::StripAsciiWhitespace(run->output));
}

}  // namespace monsoon
