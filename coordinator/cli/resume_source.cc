#include "coordinator/cli/resume_source.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/checkpoint/stored_rows.h"
#include "common/config/job.h"
#include "common/model/layout_difference.h"
#include "common/optimizer/optimizer_kinds.h"
#include "coordinator/cli/checkpoint_text.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// Epochs are sums of shares of blocks.
constexpr double kRounding = 1e-9;

// What to write to train on, if Downpour SGD is at its end already and nothing comes
// after it; else "". Seconds begin anew.
std::string HowToGoOn(const Job& job, const DownpourProgress& progress) {
  if (!job.has_downpour() || job.has_sandblaster()) {
    return "";
  }
  const Stop& stop = job.stop();
  if (stop.epochs() > 0 && EpochsOf(progress) >= stop.epochs() - kRounding) {
    return absl::StrFormat("--set=stop.epochs=%g", 2 * stop.epochs());
  }
  return stop.steps() > 0 && progress.steps() >= stop.steps()
             ? absl::StrCat("--set=stop.steps=", 2 * stop.steps())
             : "";
}

// Tables of which rows that nobody has touched would begin with other values in `now`.
std::vector<std::string> TablesThatBeginOtherwise(const std::vector<TableInfo>& before,
                                                  const std::vector<TableInfo>& now,
                                                  bool same_seed) {
  std::vector<std::string> names;
  for (size_t i = 0; i < before.size(); ++i) {
    const Initializer& a = before[i].initializer;
    const Initializer& b = now[i].initializer;
    const bool drawn = b.kind_case() != Initializer::kConstant;
    if (a.SerializeAsString() != b.SerializeAsString() || (drawn && !same_seed) ||
        before[i].optimizer.initial_sum() != now[i].optimizer.initial_sum()) {
      names.push_back(before[i].name);
    }
  }
  return names;
}

// Of an outer optimizer that is not set: it is SGD, with some rate.
std::string NameOf(Optimizer optimizer, const Job& job) {
  if (job.downpour().has_local() && optimizer.kind_case() == Optimizer::KIND_NOT_SET) {
    optimizer.mutable_sgd();
  }
  return OptimizerName(optimizer);
}

absl::Status CheckSameModel(const std::string& source, const ParameterLayout& before,
                            const ParameterLayout& now) {
  const std::string difference = FirstTensorDifference(before, source, now, "the new job");
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the new job cannot go on from ", source, ": ", difference));
  }
  if (before.Hash() != now.Hash()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the new job cannot go on from ", source,
        ": it has the same tensors, but other layers, or other settings of them; to begin with "
        "its parameters, export them and submit --init=FILE"));
  }
  return absl::OkStatus();
}

// Whether the state of `before`, which has `slots`, is that of the job's optimizer.
bool TakesState(const std::string& source, const Optimizer& before, uint32_t slots, const Job& job,
                std::vector<std::string>* notes) {
  const std::string had = NameOf(before, job);
  const std::string has = NameOf(job.downpour().optimizer(), job);
  if (had == has &&
      slots == static_cast<uint32_t>(OptimizerStateSlots(job.downpour().optimizer()))) {
    return true;
  }
  if (had != "none" && has != "none") {
    notes->push_back(absl::StrCat(source, " was trained with ", had,
                                  had == has ? " of other settings" : "", ", the new job with ",
                                  has, ": the optimizer's state begins anew"));
  }
  return false;
}

void NoteItsStop(const std::string& source, const CheckpointContext& context, const Job& job,
                 std::vector<std::string>* notes) {
  const std::string go_on = HowToGoOn(job, context.downpour());
  if (!go_on.empty()) {
    notes->push_back(absl::StrCat(source, " is at its stop already (", ProgressText(context),
                                  "): the new job will not train; raise it, as in ", go_on));
  }
}

}  // namespace

absl::Status CheckHeldSource(const ResumePoint& held, const Job& job, const ParameterLayout& layout,
                             std::vector<std::string>* notes) {
  const std::string& source = held.source_job();
  const Job& before = held.context().job();
  ASSIGN_OR_RETURN(const ParameterLayout known, ParameterLayout::Create(before.model()));
  RETURN_IF_ERROR(CheckSameModel(source, known, layout));
  const Optimizer& optimizer = before.downpour().optimizer();
  TakesState(source, optimizer, static_cast<uint32_t>(OptimizerStateSlots(optimizer)), job, notes);
  NoteItsStop(source, held.context(), job, notes);
  return absl::OkStatus();
}

absl::StatusOr<ResumeSource> MakeResumeSource(LoadedCheckpoint checkpoint, const Job& job,
                                              const ParameterLayout& layout,
                                              std::vector<std::string>* notes) {
  const std::string& source = checkpoint.content.create().job();
  RETURN_IF_ERROR(CheckSameModel(source, checkpoint.layout, layout));
  ResumeSource resume;
  const CheckpointContext& context = checkpoint.content.context();
  if (checkpoint.in_rounds > 0) {
    notes->push_back(absl::StrCat(checkpoint.in_rounds, " differences in open rounds of ", source,
                                  " are not taken over"));
  }
  const uint32_t slots = OptimizerSlots(checkpoint.content);
  if (TakesState(source, checkpoint.content.create().optimizer(), slots, job, notes)) {
    checkpoint.state.resize(slots * checkpoint.layout.size());  // the optimizer's come first
    resume.values.state = std::move(checkpoint.state);
  }
  if (!layout.tables().empty()) {
    const std::vector<std::string> others =
        TablesThatBeginOtherwise(checkpoint.layout.tables(), layout.tables(),
                                 checkpoint.content.create().seed() == job.seed());
    if (!others.empty()) {
      notes->push_back(absl::StrCat(
          "rows of ", absl::StrJoin(others, ", "), " that ", source,
          " has not touched begin as the new job says, by another seed, initializer or "
          "initial_sum"));
    }
    resume.values.rows = [rows = std::make_shared<const StoredRows>(checkpoint)](TakeRowRun take) {
      return rows->ReadTouched(take);
    };
  }
  NoteItsStop(source, context, job, notes);
  *resume.point.mutable_context() = context;
  resume.point.set_source_job(source);
  resume.point.set_generation(checkpoint.content.generation());
  resume.values.parameters = std::move(checkpoint.parameters);
  resume.values.map = checkpoint.map;
  resume.values.versions = std::move(checkpoint.versions);
  return resume;
}

}  // namespace monsoon
