// CoordinatorCore: which jobs are active, and how they go on.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/job.h"
#include "common/optimizer/optimizer_kinds.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

using Phase = JobProcedure::Phase;

std::string Worker(uint32_t worker) { return absl::StrCat("worker/", worker); }

// What people must know of a job that ends well: that its model guesses, or why it ended early.
std::string SuccessReason(const JobRecord& job) {
  std::string reason;
  for (const JobDescription::Event& event : job.state().event()) {
    if (event.kind() == kAtChance) {
      return event.text();
    }
    if (event.kind() == "finishing") {  // a chain finishes each of its parts
      reason = absl::StartsWith(event.text(), kStoppedEarly) ? event.text() : "";
    }
  }
  return reason;
}

}  // namespace

JobRecord* CoordinatorCore::ActiveOfQueue() const {
  const auto found =
      std::ranges::find_if(active_, [](const JobRecord* job) { return !job->joined(); });
  return found == active_.end() ? nullptr : *found;
}

JobRecord* CoordinatorCore::JobOfWorker(uint32_t worker) const {
  const auto found = std::ranges::find_if(
      active_, [worker](const JobRecord* job) { return job->ledger()->Find(worker) != nullptr; });
  return found == active_.end() ? nullptr : *found;
}

bool CoordinatorCore::Shuns(uint32_t worker, const std::string& job) const {
  return std::ranges::any_of(active_, [&](const JobRecord* active) {
    const bool its_own = active->joined() ? active->id() == job : job.empty();
    return its_own ? active->excluded(worker) : active->ledger()->Find(worker) != nullptr;
  });
}

std::vector<uint32_t> CoordinatorCore::WorkersOf(const JobRecord& job) const {
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

void CoordinatorCore::OpenSessions(JobRecord* job, absl::Duration now) {
  if (AwaitsShard(*job) || AwaitsFirstGeneration(*job) ||
      job->procedure()->phase() >= Phase::kLeaving) {
    return;
  }
  for (const uint32_t worker : WorkersOf(*job)) {
    // A worker has one session at a time, be it of another job that closes it.
    if (membership_.up(worker) && !membership_.draining(worker) && !job->excluded(worker) &&
        JobOfWorker(worker) == nullptr) {
      job->ledger()->Open(worker, membership_.member(worker).incarnation);
    }
  }
}

void CoordinatorCore::AdvanceActive(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_ENDING && job->end_state() != SUCCEEDED) {
    AbandonShards(job, now);
  }
  const SessionLedger::Changes changes = job->ledger()->TakeChanges();
  for (const uint32_t worker : changes.opened) {
    const bool again = !job->figures.worker_rate.try_emplace(worker).second;
    job->procedure()->AddReplica(worker, now);
    job->AddEvent(
        now, again ? "worker_rejoined" : "worker_joined", Worker(worker),
        absl::StrCat("pid ", membership_.member(worker).pid,
                     again && OptimizerStateSlots(job->plan.job.downpour().local().inner()) > 0
                         ? "; the state of its inner optimizer begins anew"
                         : ""));
  }
  for (const auto& [worker, status] : changes.refused) {
    job->AddEvent(now, "session_refused", Worker(worker), std::string(status.message()));
    Log(absl::StrCat("session of ", Worker(worker), " refused: ", status.message()));
    membership_.Expel(worker);
  }
  for (const DurableSession& session : changes.closed) {
    const uint32_t worker = session.worker();
    job->Make([&](StateUpdate* update) {
      update->mutable_session_counted()->set_worker(worker);
      *update->mutable_session_counted()->mutable_stats() =
          job->figures.totals.Of(worker, session.incarnation());
    });
    const uint64_t released = job->procedure()->RemoveReplica(worker, now);
    if (released > 0 && job->stage() == JOB_ACTIVE) {
      job->AddEvent(
          now, "blocks_released", Worker(worker),
          absl::StrCat(released, " ", job->procedure()->work_name(), " go to other replicas"));
    }
    CheckpointAfterLoss(job, worker);
  }
  if (job->stage() == JOB_ENDING) {
    if (!job->ledger()->empty()) {
      return;
    }
    if (job->final_round == 0) {
      job->final_round = poll_round_ + 1;
    }
    const bool seen = shards_.common_round().value_or(0) >= job->final_round;
    if ((seen || job->end_state() != SUCCEEDED || !shards_.all_up()) &&
        LastCheckpointIsDone(job, now)) {
      FinishEnding(job, now);
    }
    return;
  }
  FinishBatch(job, now);
  job->procedure()->Tick(now);
  TakeJobEvents(job, now);
  CheckpointBeforeLeaving(job);
  if (WaitsForLeaving(*job)) {
    return;
  }
  if (job->procedure()->phase() == Phase::kDone) {
    if (!job->hands_over()) {
      End(job, SUCCEEDED, SuccessReason(*job), now);
      return;
    }
    BeginBatch(job, now);
  }
  OpenSessions(job, now);
  AwaitReplica(job, now);
}

void CoordinatorCore::AwaitReplica(JobRecord* job, absl::Duration now) {
  if (!job->started()) {
    return;
  }
  if (job->no_replica_since && IsRestorable(*job) && AwaitsShard(*job)) {
    job->no_replica_since = now;  // Nobody can join before the shard is back.
    return;
  }
  const bool present = !job->procedure()->replicas().empty();
  if (!present) {
    job->replica_since.reset();
  } else if (!job->replica_since) {
    job->replica_since = now;
  }
  // One that is lost again at once, with nothing done, has not come back: it took
  // lost_after_ms to see that it is gone.
  const uint64_t done = job->procedure()->examples_done();
  const bool stays =
      present && (!job->no_replica_since || done > job->done_before_wait ||
                  now - *job->replica_since >= 2 * absl::Milliseconds(cluster_.lost_after_ms()));
  if (stays) {
    job->no_replica_since.reset();
    job->done_before_wait = done;
    return;
  }
  if (!job->no_replica_since) {
    job->no_replica_since = now;
    job->AddEvent(now, "no_worker", "",
                  absl::StrCat("waits for a ", job->joined() ? "program" : "worker", " to join"));
  }
  const bool none_may = !AdmitsGuests(*job) &&
                        static_cast<size_t>(job->state().excluded_size()) >= WorkersOf(*job).size();
  // People start programs when they like.
  if (job->joined() || present || (now - *job->no_replica_since <= worker_wait() && !none_may)) {
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
  End(job, FAILED, reason, now);
}

bool CoordinatorCore::RemoveDeleted() {
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() == JOB_DELETING && job->fanout.done()) {
      Log(absl::StrCat("job ", job->id(), " deleted"));
      deletions_[{job->id(), job->state().term()}].round = poll_round_;
      jobs_.Remove(job->id());
      return true;
    }
  }
  return false;
}

void CoordinatorCore::Activate(JobRecord* job, absl::Duration now) {
  active_.push_back(job);
  job->ChangeStage(JOB_ACTIVE, now);
  if (job->plan.job.has_downpour()) {
    BeginDownpour(job, now);
  } else {
    BeginBatch(job, now);
  }
  job->BeginSessions();
  CheckpointClientsParameters(job);
}

void CoordinatorCore::Advance(absl::Duration now) {
  // Each change can make way for the next one; every round but the last ends,
  // starts or deletes a job.
  for (bool changed = true; changed;) {
    changed = RemoveDeleted();
    for (const auto& job : jobs_.jobs()) {
      if (job->state().init()) {
        AdvanceCreation(job.get(), now);
      }
      if (job->joined() && job->stage() == JOB_READY && !job->waits_for_client()) {
        Activate(job.get(), now);
      }
    }
    JobRecord* const next = ActiveOfQueue() == nullptr ? jobs_.NextToRun() : nullptr;
    if (next != nullptr) {
      AdvanceCreation(next, now);
      changed |= next->ended_or_deleting();
      if (next->stage() == JOB_READY) {
        Activate(next, now);
      }
    }
    for (JobRecord* const job : std::vector<JobRecord*>(active_)) {
      AdvanceActive(job, now);
      if (job->stage() == JOB_ENDING) {
        AdvanceActive(job, now);
      }
      changed |= !job->active();
    }
  }
}

}  // namespace monsoon
