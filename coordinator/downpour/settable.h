// What `coordinator set` may change of a job that trains: one table of the settings, and who goes
// by each. All else of a job stays as it was submitted.
//
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct ChangedSettings {
  Job job;                             // with all of them
  std::vector<SettingChange> changes;  // those that are not so already, in the order of their paths
};

// `settings` are assignments as of submit --set, of a job with its defaults. InvalidArgument, by
// name: one that may not change or that this job does not have, a value that is none. What the
// changed job as a whole comes to is judged elsewhere (ValidateJob).
absl::StatusOr<ChangedSettings> ChangeSettings(const Job& job,
                                               std::span<const std::string> settings);

// The paths of the table, for people; "*" stands for a kind of optimizer.
std::string SettablePaths();

}  // namespace monsoon
