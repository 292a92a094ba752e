#include "coordinator/cli/resume_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/model/layout_difference.h"
#include "coordinator/cli/checkpoint_text.h"

namespace monsoon {
namespace {

// Epochs are sums of shares of blocks.
constexpr double kRounding = 1e-9;

// What to write to train on, if Downpour SGD, or the minimiser where there is none, is
// at its end already; else "".
std::string HowToGoOn(const Job& job, const CheckpointContext& context) {
  if (!job.has_downpour()) {
    const uint32_t most = job.sandblaster().max_iterations();
    return context.iterations() > 0 && most > 0 && context.iterations() >= most
               ? absl::StrCat("--set=sandblaster.max_iterations=", 2 * most)
               : "";
  }
  const Stop& stop = job.stop();
  if (stop.epochs() > 0 && EpochsOf(context.downpour()) >= stop.epochs() - kRounding) {
    return absl::StrFormat("--set=stop.epochs=%g", 2 * stop.epochs());
  }
  if (stop.steps() > 0 && context.downpour().steps() >= stop.steps()) {
    return absl::StrCat("--set=stop.steps=", 2 * stop.steps());
  }
  if (stop.seconds() > 0 && context.elapsed_s() >= stop.seconds()) {
    return absl::StrFormat("--set=stop.seconds=%g", 2 * stop.seconds());
  }
  return "";
}

}  // namespace

absl::StatusOr<ResumeSource> MakeResumeSource(LoadedCheckpoint checkpoint, const Job& job,
                                              const ParameterLayout& layout,
                                              std::vector<std::string>* notes) {
  const std::string& source = checkpoint.content.create().job();
  const std::string difference =
      FirstTensorDifference(checkpoint.layout, source, layout, "the new job");
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the new job cannot go on from ", source, ": ", difference));
  }
  if (checkpoint.layout.Hash() != layout.Hash()) {
    notes->push_back(absl::StrCat("the new job has the tensors of ", source,
                                  ", but its layers compute otherwise"));
  }
  ResumeSource resume;
  const CheckpointContext& context = checkpoint.content.context();
  const std::string had = OptimizerName(checkpoint.content.create().optimizer());
  const std::string has = OptimizerName(job.downpour().optimizer());
  if (had == has) {
    resume.values.state = std::move(checkpoint.state);
  } else if (had != "none" && has != "none") {
    notes->push_back(absl::StrCat(source, " was trained with ", had, ", the new job with ", has,
                                  ": the optimizer's state begins anew"));
  }
  const std::string go_on = HowToGoOn(job, context);
  if (!go_on.empty()) {
    notes->push_back(absl::StrCat(source, " is at its stop already (", ProgressText(context),
                                  "): the new job will not train; raise it, as in ", go_on));
  }
  *resume.point.mutable_context() = context;
  resume.point.set_source_job(source);
  resume.point.set_generation(checkpoint.content.generation());
  resume.values.parameters = std::move(checkpoint.parameters);
  resume.values.map = checkpoint.map;
  resume.values.versions = std::move(checkpoint.versions);
  return resume;
}

}  // namespace monsoon
