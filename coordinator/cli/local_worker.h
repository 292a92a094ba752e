// LocalRun: what evaluate and predict have in common. They run the worker's binary on
// this machine, on a model that the user names; no cluster is needed.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/cli/command.h"

namespace monsoon {

class LocalRun {
 public:
  // Adds --model, --job, --bin_dir, --json and --cluster. `call` outlives this.
  explicit LocalRun(Invocation* call);

  bool json() const { return json_; }

  // The exit code where the flags lack something. After Parse.
  std::optional<int> Check() const;

  // `worker VERB --model=... --job=... MORE...` to its end. What it printed, without
  // blanks around; or the exit code when the command is over: the worker's, which has
  // said why, or ours. `what` is for messages: "evaluation".
  std::variant<std::string, int> Run(absl::string_view what, absl::string_view verb,
                                     const std::vector<std::string>& more) const;

 private:
  absl::StatusOr<std::vector<std::string>> Arguments(absl::string_view verb) const;

  const Invocation& call_;
  ClusterFlag cluster_;
  std::string model_;
  std::string job_;
  std::string bin_dir_;
  bool json_ = false;
};

}  // namespace monsoon
