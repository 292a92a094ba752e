#include "coordinator/job/registry.h"

#include "absl/strings/str_cat.h"
#include "common/config/cluster.h"

namespace monsoon {

Registry::Registry(const Cluster& cluster, uint32_t pid, Moment now, StateWriter::Observer observer,
                   CoordinatorState state)
    : cluster(cluster),
      pid(pid),
      started(now.now),
      started_unix_ms(now.unix_ms),
      writer(std::move(observer), std::move(state)),
      membership({.cluster = cluster.name(),
                  .workers = static_cast<uint32_t>(cluster.worker_size()),
                  .lost_after = absl::Milliseconds(cluster.lost_after_ms()),
                  .open = cluster.open(),
                  .most_workers = kMaxTasksOfAKind,
                  .shunned = [this](uint32_t worker,
                                    const std::string& job) { return jobs.Shuns(worker, job); }},
                 &writer),
      shards(static_cast<uint32_t>(cluster.ps_size()), absl::Milliseconds(cluster.lost_after_ms()),
             absl::Milliseconds(cluster.ps_lost_after_ms())),
      jobs(&writer) {}

void Registry::End(JobRecord* job, JobState state, const std::string& reason, absl::Duration now) {
  const JobStage before = job->stage();
  job->End(state, reason, now);
  if (before == JOB_ACTIVE) {
    job->CloseSessions();
  } else if (before < JOB_ACTIVE) {
    FinishEnding(job, now);
  }
}

void Registry::FinishEnding(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_ENDING) {
    job->ChangeStage(JOB_ENDED, now);
  }
  jobs.NoLongerActive(job);
  const std::string text = absl::StrCat(JobState_Name(job->end_state()),
                                        job->reason().empty() ? "" : ": ", job->reason());
  job->AddEvent(now, "ended", "", text);
  Log(absl::StrCat("job ", job->id(), " ", text));
}

}  // namespace monsoon
