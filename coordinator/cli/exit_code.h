// The exit codes of all commands.
#pragma once

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,      // the job failed or was cancelled
  kExitUsage = 2,          // flags, configuration, an unknown job
  kExitUnreachable = 3,    // the coordinator or a shard does not answer
  kExitTimeout = 4,        // what was waited for did not happen in time
  kExitData = 5,           // a data error at run time
  kExitInterrupted = 130,  // SIGINT; a watched job goes on
  kExitTerminated = 143,   // SIGTERM
};

// For an error of a client or a file.
ExitCode ExitCodeOf(const absl::Status& status);

// An error of a call that came to no coordinator, as far as the caller knows; else it is
// the coordinator's own.
bool WasNotReached(const absl::Status& status);

// For a job that has ended; a reason that begins with "data: " is a data error
// (proto/job_description.proto, JobSummary).
ExitCode ExitCodeOf(const JobSummary& ended);

// A batch job that could not go on before it was at a minimum, which is a success all the same
// unless the caller is strict.
bool MissedItsMinimum(const JobDescription& ended);

// Whether the job has ended, in any way.
bool HasEnded(JobState state);

}  // namespace monsoon
