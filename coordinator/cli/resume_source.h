// What `submit --resume` goes on from: a checkpoint, held against the job that is to go
// on.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/model/parameter_layout.h"
#include "coordinator/cli/environment.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct ResumeSource {
  ResumePoint point;
  InitialValues values;
};

// Takes parameters, optimizer state, versions and rows of tables out of `checkpoint` for `job`,
// whose layout is `layout`. InvalidArgument names the first tensor or table that differs, or says
// that only layers without tensors do. Where the job has an optimizer of another kind the state
// stays behind, so that it begins anew; what was in an open round does in any case. `notes` gets a
// line for each, and for a stop that is reached already.
absl::StatusOr<ResumeSource> MakeResumeSource(LoadedCheckpoint checkpoint, const Job& job,
                                              const ParameterLayout& layout,
                                              std::vector<std::string>* notes);

// The same of what the shards hold (JobLocation.held), of which nothing is taken out here.
absl::Status CheckHeldSource(const ResumePoint& held, const Job& job, const ParameterLayout& layout,
                             std::vector<std::string>* notes);

}  // namespace monsoon
