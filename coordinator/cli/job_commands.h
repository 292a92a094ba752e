// The verbs that ask the coordinator about jobs: jobs, describe, watch, cancel,
// checkpoint, set, delete; and about tasks: drain, give-up, tasks.
#pragma once

#include <string>

#include "coordinator/cli/command.h"
#include "coordinator/cli/patience.h"

namespace monsoon {

int RunJobs(Invocation& call);
int RunDescribe(Invocation& call);
int RunWatch(Invocation& call);
int RunCancel(Invocation& call);
int RunCheckpoint(Invocation& call);
int RunDelete(Invocation& call);
int RunSet(Invocation& call);
int RunDrain(Invocation& call);
int RunGiveUp(Invocation& call);
int RunTasks(Invocation& call);

enum class WatchOutput {
  kData,      // progress on the standard output
  kMessages,  // progress on the standard error
  kJson,      // the same, and the last description on the standard output
};

struct WatchOptions {
  WatchOutput output = WatchOutput::kData;
  bool strict = false;  // a batch job that missed its minimum has failed
};

// --strict of `watch` and `submit`.
void AddStrictFlag(Invocation* call, bool* strict);

// Shows a job's progress until it ends; the coordinator may be away as `patience` has it,
// which knows whether it has answered yet. Returns the exit code: 0 succeeded, 1 failed or
// cancelled, 3 the coordinator is gone, 130 or 143 after a signal, and then the job goes on.
int WatchJob(const Invocation& call, JobClient* client, const std::string& job,
             const WatchOptions& options, Patience* patience);

}  // namespace monsoon
