#include "coordinator/cli/exit_code.h"

#include "absl/strings/match.h"

namespace monsoon {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    // A deadline of an RPC: nobody answered. Waits of ours use kExitTimeout. A
    // server that ends cancels the calls it has.
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnreachable;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return kExitData;
    default:
      return kExitUsage;
  }
}

bool WasNotReached(const absl::Status& status) {
  return (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) &&
         absl::StartsWith(status.message(), "coordinator at ");
}

ExitCode ExitCodeOf(const JobSummary& ended) {
  if (ended.state() == SUCCEEDED) {
    return kExitOk;
  }
  const bool data_error = ended.state() == FAILED && absl::StartsWith(ended.reason(), "data: ");
  return data_error ? kExitData : kExitJobFailed;
}

bool MissedItsMinimum(const JobDescription& ended) {
  const std::string& reason = ended.sandblaster().end_reason();
  return reason == "stalled" || reason == "line_search_failed";
}

bool HasEnded(JobState state) {
  return state == SUCCEEDED || state == FAILED || state == CANCELLED;
}

}  // namespace monsoon
