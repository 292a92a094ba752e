#include "coordinator/replicas/recruitment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/job.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/job/shard_reason.h"
#include "coordinator/replicas/entering.h"

namespace monsoon {
namespace {

using Phase = JobProcedure::Phase;

}  // namespace

std::string AddressOf(const Registry& registry, uint32_t worker) {
  if (registry.membership.listed(worker)) {
    return registry.cluster.worker(static_cast<int>(worker)).address();
  }
  const WorkerIncarnation* const entered = registry.membership.Entered(worker);
  const std::string host = registry.membership.member(worker).host;
  return absl::StrCat(entered == nullptr ? "a guest" : "a program", host.empty() ? "" : " on ",
                      host, entered == nullptr ? "" : ", in ",
                      entered == nullptr ? "" : entered->enters_job());
}

bool Recruitment::AdmitsGuests(const JobRecord& job) const {
  return job.joined() || (cluster_.open() && WantedWorkers(job.plan.job) == 0);
}

std::vector<uint32_t> Recruitment::WorkersOf(const JobRecord& job) const {
  std::vector<uint32_t> workers;
  for (uint32_t worker = 0; worker < membership_.size(); ++worker) {
    const bool its_own = job.joined() ? membership_.HasEntered(worker, job.id(), job.state().term())
                                      : membership_.Entered(worker) == nullptr;
    if (its_own && (AdmitsGuests(job) || workers.size() < job.plan.replicas)) {
      workers.push_back(worker);
    }
  }
  return workers;
}

bool Recruitment::Advance(JobRecord* job, absl::Duration now) {
  OpenSessions(job, now);
  AwaitReplica(job, now);
  return true;
}

void Recruitment::OpenSessions(JobRecord* job, absl::Duration now) {
  if (View(*job).AwaitsShard() || View(*job).AwaitsFirstGeneration() ||
      job->procedure()->phase() >= Phase::kLeaving) {
    return;
  }
  for (const uint32_t worker : WorkersOf(*job)) {
    // A worker has one session at a time, be it of another job that closes it.
    const auto kept_out = job->figures.kept_out.find(worker);
    if (membership_.up(worker) && !membership_.draining(worker) && !job->excluded(worker) &&
        (kept_out == job->figures.kept_out.end() || now >= kept_out->second) &&
        jobs_.JobOfWorker(worker) == nullptr) {
      job->ledger()->Open(worker, membership_.member(worker).incarnation,
                          membership_.MemberOf(worker));
    }
  }
}

void Recruitment::AwaitReplica(JobRecord* job, absl::Duration now) {
  if (!job->started()) {
    return;
  }
  if (job->attendance.none_since && View(*job).IsRestorable() && View(*job).AwaitsShard()) {
    job->attendance.none_since = now;  // Nobody can join before the shard is back.
    return;
  }
  const bool present = !job->procedure()->replicas().empty();
  if (!present) {
    job->attendance.some_since.reset();
  } else if (!job->attendance.some_since) {
    job->attendance.some_since = now;
  }
  // One that is lost again at once, with nothing done, has not come back: it took
  // lost_after_ms to see that it is gone.
  const uint64_t done = job->procedure()->examples_done();
  const bool stays =
      present &&
      (!job->attendance.none_since || done > job->attendance.done_before ||
       now - *job->attendance.some_since >= 2 * absl::Milliseconds(cluster_.lost_after_ms()));
  if (stays) {
    job->attendance.none_since.reset();
    job->attendance.done_before = done;
    return;
  }
  if (!job->attendance.none_since) {
    job->attendance.none_since = now;
    job->AddEvent(now, "no_worker", "",
                  absl::StrCat("waits for a ", job->joined() ? "program" : "worker", " to join"));
  }
  const bool none_may = !AdmitsGuests(*job) &&
                        static_cast<size_t>(job->state().excluded_size()) >= WorkersOf(*job).size();
  // People start programs when they like.
  if (job->joined() || present ||
      (now - *job->attendance.none_since <= worker_wait() && !none_may)) {
    return;
  }
  std::string reason = none_may ? "every worker is left out of this job" : NoWorkerFor(*job, now);
  if (!job->state().last_failure().empty()) {
    absl::StrAppend(&reason, "; last: ", job->state().last_failure());
  }
  if (job->job_state() == FINISHING) {
    absl::StrAppend(&reason,
                    "; the data is done and the final evaluation is missing: `coordinator "
                    "export ",
                    job->id(), "` gives the parameters");
  }
  registry_->End(job, FAILED, reason, now);
}

// ---- what people see ---------------------------------------------------------

std::string Recruitment::WaitsFor(const JobRecord& job, Moment moment) const {
  const bool lacks_all = job.stage() == JOB_ACTIVE && job.procedure()->replicas().empty();
  return lacks_all ? ReplicaReason(job, moment.now) : "";
}

std::string Recruitment::ReplicaReason(const JobRecord& job, absl::Duration now) const {
  for (const DurableSession& session : job.state().session()) {
    if (session.state() == DurableSession::OPENING) {
      return absl::StrCat("opens the session of worker/", session.worker());
    }
  }
  if (job.joined()) {
    const std::string& failure = job.state().last_failure();
    return absl::StrCat(ProgramReason(job),
                        job.procedure()->phase() >= JobProcedure::Phase::kDraining
                            ? ", to finish the last pushes and to test the final parameters"
                            : "",
                        failure.empty() ? "" : "; the last that failed: ", failure);
  }
  std::string text = absl::StrCat("waits for ", AbsentWorkers(job, now));
  if (job.job_state() == FINISHING) {
    absl::StrAppend(&text, ", to finish the last pushes and to test the final parameters");
  }
  if (job.attendance.none_since) {
    const absl::Duration left = worker_wait() - (now - *job.attendance.none_since);
    absl::StrAppendFormat(&text, "; fails in %.0f s", std::max(0.0, absl::ToDoubleSeconds(left)));
  }
  return text;
}

std::string Recruitment::NoWorkerFor(const JobRecord& job, absl::Duration now) const {
  return absl::StrFormat("no worker for %.0f s (worker_wait_ms: %d); waited for %s",
                         absl::ToDoubleSeconds(now - *job.attendance.none_since),
                         cluster_.worker_wait_ms(), AbsentWorkers(job, now));
}

std::string Recruitment::AbsentWorkers(const JobRecord& job, absl::Duration now) const {
  std::vector<std::string> absent;
  for (const uint32_t worker : WorkersOf(job)) {
    const Member member = membership_.member(worker);
    std::string state = "not seen";
    if (job.excluded(worker)) {
      state = "left out of this job";
    } else if (member.state == Member::State::kUp) {
      state = "joined, without a session";
    } else if (member.state != Member::State::kNeverSeen) {
      state =
          absl::StrFormat("%s for %.0f s", member.state == Member::State::kLeft ? "gone" : "lost",
                          absl::ToDoubleSeconds(now - member.last_seen));
    }
    const bool listed = membership_.listed(worker);
    absent.push_back(absl::StrCat("worker/", worker, listed ? " at " : ", ",
                                  AddressOf(*registry_, worker), " (", state, ")"));
  }
  if (absent.empty()) {
    return "a worker: the cluster is open, and none has joined";
  }
  return absl::StrCat("a worker: ", JoinSome(absent));
}

}  // namespace monsoon
