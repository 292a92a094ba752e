#include "coordinator/downpour/resume.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "coordinator/downpour/resumed_progress.h"
#include "coordinator/job/batch_order.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

std::string SourceOf(const ResumePoint& resume) {
  return absl::StrCat(resume.source_job().empty() ? "a checkpoint" : resume.source_job(),
                      ", generation ", resume.generation());
}

absl::Status CheckResume(const JobPlan& plan, const JobTable::Submission& submission) {
  if (!submission.resume) {
    return absl::OkStatus();
  }
  const ResumePoint& resume = *submission.resume;
  const std::string where =
      absl::StrCat("job \"", plan.job.name(), "\" cannot go on from ", SourceOf(resume));
  if (!submission.init) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": init is not set, so nobody writes its parameters"));
  }
  const absl::StatusOr<ParameterLayout> layout =
      ParameterLayout::Create(resume.context().job().model());
  if (!layout.ok()) {
    return Annotate(layout.status(), absl::StrCat(where, ": the checkpoint's model"));
  }
  if (layout->Hash() != plan.layout_hash) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": its model has another layout"));
  }
  // What was done of the data is held against them once they were looked at.
  if (TrainsInGroups(plan.job) && !plan.awaits_data) {
    std::string note;
    const absl::StatusOr<SynchronousPosition> resumed =
        BatchOrder(plan.examples, plan.job.batch_size()).Resume(resume.context(), &note);
    if (!resumed.ok()) {
      return Annotate(resumed.status(), where);
    }
  } else if (plan.job.has_downpour() && !plan.awaits_data) {
    const DownpourOptions options = DownpourOptions::FromJob(plan.job, plan.examples);
    const absl::StatusOr<ResumedProgress> resumed =
        ResumeProgress(resume.context(), options.examples, options.block_examples);
    if (!resumed.ok()) {
      return Annotate(resumed.status(), where);
    }
  }
  return absl::OkStatus();
}

DownpourOptions DownpourOptionsOf(const JobRecord& job, std::string* note) {
  DownpourOptions options = DownpourOptions::FromJob(job.plan.job, job.plan.examples);
  if (job.state().has_resume()) {
    absl::StatusOr<ResumedProgress> resumed =
        ResumeProgress(job.state().resume().context(), options.examples, options.block_examples);
    CHECK_OK(resumed.status());  // Submit has judged it.
    options.resumed = resumed->progress;
    const Schedule& before = job.state().resume().context().job().downpour().optimizer().schedule();
    if (options.plateau && before.has_plateau()) {
      options.plateau->set_reductions(
          std::max(options.plateau->reductions(), before.plateau().reductions()));
    }
    options.warmstart.Clear();
    *note = resumed->note;
  }
  return options;
}

}  // namespace monsoon
