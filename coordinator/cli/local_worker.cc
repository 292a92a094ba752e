#include "coordinator/cli/local_worker.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/launcher/task_plan.h"

namespace monsoon {

std::variant<std::string, int> RunLocalWorker(const Invocation& call, const std::string& bin_dir,
                                              absl::string_view what,
                                              std::vector<std::string> arguments) {
  const absl::StatusOr<std::string> worker = FindBinary("worker", bin_dir, call.env().self_path);
  if (!worker.ok()) {
    return call.Fail(worker.status());
  }
  arguments.insert(arguments.begin(), *worker);
  const absl::StatusOr<CapturedRun> run = call.env().run_and_capture(arguments);
  if (!run.ok()) {
    return call.Fail(run.status());
  }
  if (!run->end.ok()) {
    // The worker has said why on the standard error, which it shares with us.
    call.Note(absl::StrCat("the worker's ", what, " ", run->end.Describe()));
    return run->end.signaled ? 128 + run->end.code : run->end.code;
  }
  return std::string(absl::StripAsciiWhitespace(run->output));
}

}  // namespace monsoon
