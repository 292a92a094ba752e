#include "coordinator/status/wait_reason.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/job/shard_reason.h"

namespace monsoon {

std::string WaitReasons::Of(const JobRecord& job, Moment moment) const {
  if (!guard_.trouble().empty() && !job.ended_or_deleting()) {
    return absl::StrCat("waits for the coordinator to write its state: ", guard_.trouble());
  }
  if (!guard_.waits_for().empty() && !job.ended_or_deleting()) {
    return absl::StrCat("waits for ", guard_.waits_for());
  }
  // A job that would have ended by now has its reason to end already, and waits all the same.
  if (std::string end = checkpoints_.WaitsForEnd(job, moment); !end.empty()) {
    return end;
  }
  if (job.ended_or_deleting() || !job.reason().empty()) {
    return job.reason();
  }
  // A job that is not at the head of the queue would wait even if all it needs were there.
  if (job.stage() < JOB_ACTIVE && !job.joined() && !job.waits_for_client()) {
    if (std::string queue = QueueReason(job, moment); !queue.empty()) {
      return queue;
    }
  }
  for (const Controller* const controller : order_) {
    if (std::string reason = controller->WaitsFor(job, moment); !reason.empty()) {
      return reason;
    }
  }
  return ReplicasReason(job, moment.now);
}

std::string WaitReasons::ReplicasReason(const JobRecord& job, absl::Duration now) const {
  // One that waits now and then, as in each round, goes on.
  const std::optional<double> rate = job.figures.rate.Rate(now);
  if (job.stage() != JOB_ACTIVE || !rate || *rate > 0) {
    return "";
  }
  std::vector<std::string> waits;
  for (const uint32_t worker : job.procedure()->replicas()) {
    const std::string why = job.figures.totals.SumOf(worker).waits_for();
    if (why.empty()) {
      return "";
    }
    waits.push_back(absl::StrCat("worker/", worker, ": ", why));
  }
  return waits.empty() ? "" : absl::StrCat("its workers wait: ", JoinSome(waits));
}

std::string WaitReasons::QueueReason(const JobRecord& job, Moment moment) const {
  std::vector<const JobRecord*> ahead;
  const JobRecord* const active = registry_.jobs.ActiveOfQueue();
  if (active != nullptr) {
    ahead.push_back(active);
  }
  for (const auto& other : registry_.jobs.jobs()) {
    if (other.get() == &job) {
      break;
    }
    if (other->stage() < JOB_ACTIVE && !other->joined() && !other->waits_for_client()) {
      ahead.push_back(other.get());
    }
  }
  if (ahead.empty()) {
    return "";
  }
  const JobRecord& first = *ahead.front();
  std::string text =
      absl::StrFormat("waits for job %s to end (%s, %.0f %%", first.id(),
                      JobState_Name(first.job_state()), 100 * first.fraction(moment.now));
  // What holds up the first one holds up all behind it.
  const std::string why = &first == active ? Of(first, moment) : "";
  absl::StrAppend(&text, why.empty() ? "" : "; it ", why, ")");
  if (ahead.size() > 1) {
    std::vector<std::string> others;
    for (const JobRecord* other : ahead) {
      if (other != &first) {
        others.push_back(other->id());
      }
    }
    absl::StrAppend(&text, ", then for ", JoinSome(others));
  }
  return absl::StrCat(text, "; it is number ", ahead.size() + 1, " in the queue");
}

}  // namespace monsoon
