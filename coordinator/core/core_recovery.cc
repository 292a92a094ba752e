// CoordinatorCore: where an earlier life of the coordinator ended.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {

void CoordinatorCore::RememberShard(uint32_t shard) {
  const ShardView& view = shards_.shard(shard);
  if (view.state != ShardView::State::kUp) {
    return;
  }
  ShardSeen seen;
  seen.set_shard(shard);
  seen.set_epoch(view.status.shard_epoch());
  seen.set_pid(view.status.pid());
  seen.set_state_dir(view.status.state_dir());
  const ShardSeen* const known = writer_.state().FindShard(shard);
  if (known == nullptr || known->epoch() != seen.epoch() || known->pid() != seen.pid() ||
      known->state_dir() != seen.state_dir()) {
    StateUpdate update;
    *update.mutable_shard_seen() = std::move(seen);
    writer_.Apply(update);
  }
}

void CoordinatorCore::Recover(absl::Duration now) {
  for (const ShardSeen& seen : writer_.state().snapshot().shard()) {
    if (seen.shard() < shards_.size()) {
      ShardStatusReply known;
      known.set_task(seen.shard());
      known.set_pid(seen.pid());
      known.set_shard_epoch(seen.epoch());
      known.set_state_dir(seen.state_dir());
      shards_.Expect(seen.shard(), known, now);
    }
  }
  for (const auto& job : jobs_.jobs()) {
    RecoverJob(job.get(), now);
  }
  std::vector<uint32_t> absent;
  for (JobRecord* const job : active_) {
    for (const DurableSession& session : job->state().session()) {
      if (session.state() == DurableSession::CLOSING) {
        // Perhaps it left, and perhaps it was lost.
        job->lost_workers.insert(session.worker());
      } else if (!membership_.Expect(session.worker(), now)) {
        absent.push_back(session.worker());
      }
    }
  }
  for (const uint32_t worker : absent) {
    CloseSession(worker, "worker_lost", "the cluster file has it no more", now);
  }
}

void CoordinatorCore::RecoverJob(JobRecord* job, absl::Duration now) {
  if (job->plan.shard_bytes.size() != shards_.size() && !job->state().slices_lost()) {
    job->Make([&](StateUpdate* update) {
      JobForfeited* const forfeited = update->mutable_job_forfeited();
      forfeited->set_at_ns(ToNanos(now));
      forfeited->set_reason(absl::StrCat("it is on ", job->plan.shard_bytes.size(),
                                         " parameter servers, and the cluster file has ",
                                         shards_.size(), " now: `coordinator submit --resume=",
                                         job->id(), "` goes on from its newest checkpoint"));
    });
  }
  const DurableJob& state = job->state();
  if (state.has_downpour()) {
    std::string note;
    DownpourOptions options = DownpourOptionsOf(*job, &note);
    options.keep_best = BestOf(*job);
    ContinueDownpour(options, job);
  }
  if (state.has_sandblaster()) {
    ContinueSandblaster(BatchOptionsOf(*job), job);
  }
  for (const WorkerFigures& closed : state.closed()) {
    job->figures.totals.Record(closed.worker(), /*incarnation=*/0, closed.stats());
    job->figures.worker_rate.try_emplace(closed.worker());
  }
  switch (job->stage()) {
    case JOB_CREATING:
    case JOB_DELETING:
      job->fanout = ShardFanout(shards_.size());
      break;
    case JOB_READY:
      // Its writer has not been heard in this life, and may write all the same.
      job->writer_heard = now;
      job->writer_is_there = state.writer().guest() != 0;
      break;
    case JOB_ACTIVE:
    case JOB_ENDING:
      active_.push_back(job);
      job->BeginSessions();
      job->told_memory_only = true;
      for (const DurableSession& session : state.session()) {
        job->figures.worker_rate.try_emplace(session.worker());
      }
      break;
    default:
      break;
  }
  if (state.slices_ready()) {
    // Numbers and versions are known once each shard shows its slice.
    for (uint32_t shard = 0; shard < job->plan.shard_bytes.size(); ++shard) {
      job->checkpoints.ForgetShard(shard);
    }
  }
  if (job->ended_or_deleting()) {
    return;
  }
  const std::string text = absl::StrCat("the coordinator was started anew (pid ", pid_, ")");
  if (job->stage() > JOB_QUEUED) {
    job->AddEvent(now, "coordinator_restarted", "coordinator/0", text);
  }
  Log(absl::StrCat("goes on with job ", job->id(), " (", JobState_Name(job->job_state()), ", ",
                   static_cast<int>(100 * job->fraction(now)), " % done)"));
  RecoverBatch(job, now);
}

void CoordinatorCore::RecoverBatch(JobRecord* job, absl::Duration now) {
  if (!job->batch_under_way()) {
    return;
  }
  // What the minimiser knew died with its process.
  if (CanReturn(*job)) {
    ReturnBatch(job, "the coordinator was started anew", now);
  } else if (!IsDurable(*job)) {
    End(job, FAILED, absl::StrCat("the coordinator died during the batch", ResumeHint(*job)), now);
  }
}

}  // namespace monsoon
