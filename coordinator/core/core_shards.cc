// CoordinatorCore: shards, what they are told, and time.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/cluster.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

using Kind = ShardCommand::Kind;

std::string Worker(uint32_t worker) { return absl::StrCat("worker/", worker); }
std::string Shard(uint32_t shard) { return absl::StrCat("ps/", shard); }

}  // namespace

CoordinatorCore::CoordinatorCore(const Cluster& cluster, uint32_t pid, Moment moment,
                                 StateWriter::Observer observer, CoordinatorState state)
    : cluster_(cluster),
      pid_(pid),
      started_(moment.now),
      writer_(std::move(observer), std::move(state)),
      membership_({.cluster = cluster.name(),
                   .workers = static_cast<uint32_t>(cluster.worker_size()),
                   .lost_after = absl::Milliseconds(cluster.lost_after_ms()),
                   .open = cluster.open(),
                   .most_workers = kMaxTasksOfAKind,
                   .shunned = [this](uint32_t worker,
                                     const std::string& job) { return Shuns(worker, job); }},
                  &writer_),
      shards_(static_cast<uint32_t>(cluster.ps_size()), absl::Milliseconds(cluster.lost_after_ms()),
              absl::Milliseconds(cluster.ps_lost_after_ms())),
      jobs_(&writer_) {
  TakeTerm(0, moment.unix_ms);
  Recover(moment.now);
}

bool CoordinatorCore::wants_poll() const {
  return look_ || std::ranges::any_of(active_, [this](const JobRecord* job) {
           return job->stage() == JOB_ENDING && job->final_round > poll_round_;
         });
}

void CoordinatorCore::OnPoll(uint32_t shard, uint64_t round,
                             const absl::StatusOr<ShardStatusReply>& reply, Moment moment) {
  const auto change = shards_.OnPoll(shard, round, reply, moment.now, moment.unix_ms);
  RememberShard(shard);
  if (change) {
    OnShardChange(*change, moment.now);
  }
  if (reply.ok()) {
    CheckTerm(shard, reply->term(), moment);
    RecordShards(round);
    FindMissingSlices(shard, round, moment.now);
    RecordCheckpoints(shard, moment.now);
    ForgetDeletions();
  }
  Advance(moment.now);
  AdvanceCheckpoints(moment);
}

void CoordinatorCore::RecordShards(uint64_t round) {
  const bool complete = shards_.common_round() == round;
  for (const auto& job : jobs_.jobs()) {
    if (!job->state().slices_ready() || job->state().slices_lost() ||
        job->stage() == JOB_DELETING) {
      continue;
    }
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    bool all = true;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      const ShardJobStatus* const status = shards_.job(shard, job->id(), job->state().term());
      if (status == nullptr) {
        all = false;
        continue;
      }
      job->figures.shard_status[shard] = *status;
      job->figures.shard_pid[shard] = shards_.shard(shard).status.pid();
      job->figures.shard_rss[shard] = shards_.shard(shard).status.rss_bytes();
      lowest = std::min<uint64_t>(lowest, status->version_min());
      highest = std::max<uint64_t>(highest, status->version_min());
    }
    const bool trains = job->active() && job->started();
    if (complete && trains && all) {
      const uint64_t skew = highest - lowest;
      const uint64_t before = job->figures.skew_max.value_or(0);
      job->figures.skew_now = skew;
      // A shard that was restored is behind until workers have sent it all again.
      job->figures.catching_up = job->figures.catching_up && skew > before;
      job->figures.skew_max = job->figures.catching_up ? before : std::max(before, skew);
    }
  }
}

void CoordinatorCore::FindMissingSlices(uint32_t shard, uint64_t round, absl::Duration now) {
  for (const auto& job : jobs_.jobs()) {
    const bool expected = job->state().slices_ready() && !job->state().slices_lost() &&
                          job->stage() != JOB_DELETING && round > job->ready_round &&
                          shards_.shard(shard).round == round && !AwaitsRestore(*job, shard);
    if (expected && shards_.job(shard, job->id(), job->state().term()) == nullptr) {
      const std::string text =
          absl::StrCat(Shard(shard), " (pid ", shards_.shard(shard).status.pid(), ") at ",
                       cluster_.ps(static_cast<int>(shard)).address(),
                       " has no slice of it any more: somebody else deleted it");
      Log(absl::StrCat("job ", job->id(), ": ", text));
      LoseSlices(job.get(), SliceLoss::kDeleted, text, now);
    }
  }
}

void CoordinatorCore::OnShardChange(const ShardChange& change, absl::Duration now) {
  const std::string who = absl::StrCat(Shard(change.shard), " (pid ", change.pid, ")");
  const std::string address = cluster_.ps(static_cast<int>(change.shard)).address();
  switch (change.kind) {
    case ShardChange::Kind::kJoined:
      Log(absl::StrCat(who, " is up at ", address));
      return;
    case ShardChange::Kind::kSuspect: {
      const std::string text = absl::StrFormat(
          "%s at %s has been silent for %.1f s; jobs wait for it, and those that it keeps in "
          "memory only until it is lost, after %.0f s",
          who, address, absl::ToDoubleSeconds(now - shards_.shard(change.shard).last_seen),
          cluster_.ps_lost_after_ms() / 1000.0);
      Log(text);
      for (JobRecord* const job : active_) {
        job->AddEvent(now, "shard_silent", Shard(change.shard), text);
      }
      return;
    }
    case ShardChange::Kind::kBack:
      Log(absl::StrCat(who, " is back at ", address));
      for (JobRecord* const job : active_) {
        job->AddEvent(now, "shard_back", Shard(change.shard), absl::StrCat(who, " answers"));
      }
      return;
    case ShardChange::Kind::kLost: {
      const ShardView& view = shards_.shard(change.shard);
      std::string text = absl::StrFormat("%s at %s is lost: silent for %.1f s", who, address,
                                         absl::ToDoubleSeconds(now - view.last_seen));
      if (!view.last_error.ok()) {
        absl::StrAppend(&text, " (", view.last_error.message(), ")");
      }
      Log(text);
      for (const auto& job : jobs_.jobs()) {
        if (!IsRestorable(*job)) {
          LoseSlices(job.get(), SliceLoss::kUnreachable, text, now);
        } else if (job->stage() != JOB_ENDED) {
          job->AddEvent(now, "shard_lost", Shard(change.shard),
                        absl::StrCat(text, "; the job waits until it is started again"));
        }
      }
      return;
    }
    case ShardChange::Kind::kRestarted: {
      const std::string text = absl::StrCat(Shard(change.shard), " (pid ", change.old_pid, ") at ",
                                            address, " restarted as pid ", change.pid);
      Log(text);
      for (const auto& job : jobs_.jobs()) {
        if (IsRestorable(*job)) {
          AwaitRestore(job.get(), change, text, now);
          ReturnIfBegun(job.get(), text, now);
        } else {
          LoseSlices(job.get(), SliceLoss::kRestarted, text, now);
        }
      }
      return;
    }
  }
}

void CoordinatorCore::OnCommand(const ShardCommand& command, const ShardAnswer& answer,
                                Moment moment) {
  const absl::Status& status = answer.status;
  term_in_force_ |= status.ok() && command.term == term();
  JobRecord* const job = jobs_.Lookup(command.job);
  if (job == nullptr || job->state().term() != command.job_term) {
    OnOrphanDeleted(command, answer, moment.now);
    return;
  }
  switch (command.kind) {
    case Kind::kCreateJob:
      if (job->stage() == JOB_CREATING && command.call > job->fanout_after) {
        if (status.ok()) {
          job->Make([&](StateUpdate* update) {
            update->mutable_shard_created()->set_shard(command.shard);
            update->mutable_shard_created()->set_epoch(answer.shard_epoch);
          });
        }
        job->fanout.OnResult(
            command.shard,
            status.ok() ? status
                        : absl::Status(status.code(),
                                       absl::StrCat(Shard(command.shard), ": ", status.message())),
            moment.now);
      }
      break;
    case Kind::kDeleteJob:
      if (job->stage() == JOB_DELETING) {
        job->fanout.OnResult(command.shard, status, moment.now);
      }
      break;
    case Kind::kOpenSession:
    case Kind::kCloseSession:
      if (LostPushes lost = answer.closed.lost(); lost.records() + lost.row_pushes() > 0) {
        lost.set_shard(command.shard);
        NoteLostPushes(job, lost, moment.now);
      }
      if (job->ledger() != nullptr) {
        job->ledger()->OnResult(command, Excused(*job, command, answer), moment.now);
      }
      break;
    case Kind::kCheckpoint:
      job->checkpoints.OnResult(command.shard, command.checkpoint.generation(),
                                Excused(*job, command, answer).status, moment.now);
      break;
    case Kind::kReduceRate:
      OnRateReduced(job, command, status, moment.now);
      break;
    case Kind::kRestoreJob:
      OnRestored(job, command, answer, moment.now);
      break;
  }
  Advance(moment.now);
  AdvanceCheckpoints(moment);
}

void CoordinatorCore::Tick(Moment moment) {
  for (const ShardChange& change : shards_.Tick(moment.now)) {
    OnShardChange(change, moment.now);
  }
  for (const uint32_t worker : membership_.Tick(moment.now)) {
    const Member& member = membership_.member(worker);
    const std::string text = absl::StrFormat("pid %d silent for %.1f s", member.pid,
                                             absl::ToDoubleSeconds(moment.now - member.last_seen));
    Log(absl::StrCat(Worker(worker), " is lost: ", text));
    CloseSession(worker, "worker_lost", text, moment.now);
  }
  for (const auto& job : jobs_.jobs()) {
    if (job->written_by_program()) {
      WatchWriter(job.get(), moment.now);
    } else if (job->stage() == JOB_READY && job->waits_for_client() &&
               moment.now - FromNanos(job->state().ready_ns()) > kInitTimeout) {
      End(job.get(), FAILED,
          absl::StrCat("the client has not written the parameters within ",
                       absl::FormatDuration(kInitTimeout)),
          moment.now);
    }
  }
  Advance(moment.now);
  AdvanceCheckpoints(moment);
}

void CoordinatorCore::AdvanceCreation(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_QUEUED && shards_.all_up()) {
    job->ChangeStage(JOB_CREATING, now);
    job->fanout = ShardFanout(shards_.size());
    job->fanout_after = calls_;
  }
  if (job->stage() != JOB_CREATING || !job->fanout.done()) {
    return;
  }
  if (!job->fanout.error().ok()) {
    End(job, FAILED, absl::StrCat("its slices cannot be created: ", job->fanout.error().message()),
        now);
    return;
  }
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).status.shard_epoch() !=
        job->state().shard_epoch(static_cast<int>(shard))) {
      return;  // Restarted meanwhile: the next poll tells, and the job begins anew.
    }
  }
  job->ready_round = poll_round_;
  job->ChangeStage(JOB_READY, now);
}

std::vector<ShardCommand> CoordinatorCore::TakeCommands(Moment moment) {
  std::vector<ShardCommand> commands;
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() == JOB_CREATING || job->stage() == JOB_DELETING) {
      for (const uint32_t shard : job->fanout.Due(moment.now)) {
        ShardCommand command;
        command.shard = shard;
        command.job = job->id();
        command.job_term = job->state().term();
        if (job->stage() == JOB_CREATING) {
          command.kind = Kind::kCreateJob;
          command.create = job->plan.CreateRequest(job->id(), shard, job->state().init());
          command.create.set_job_term(job->state().term());
          command.create.set_term(term());
          // Parts of slices before it go, too, also of those that died with their shard.
          command.replace = shards_.job(shard, job->id(), job->state().term()) != nullptr ||
                            job->checkpoints.state().last() > 0;
        } else {
          command.kind = Kind::kDeleteJob;
        }
        commands.push_back(std::move(command));
      }
    }
  }
  TakeRestoreCommands(moment.now, &commands);
  for (JobRecord* const job : active_) {
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      job->ledger()->HoldBack(shard, AwaitsRestore(*job, shard));
    }
    for (ShardCommand& command : job->ledger()->Due(moment.now)) {
      commands.push_back(std::move(command));
    }
  }
  TakeRateCommands(moment.now, &commands);
  TakeCheckpointCommands(moment.now, &commands);
  TakeOrphanCommands(moment.now, &commands);
  for (ShardCommand& command : commands) {
    command.term = term();
    command.call = calls_ += 2;
    command.create.set_call(command.call);
  }
  return commands;
}

std::vector<std::string> CoordinatorCore::TakeLog() { return std::exchange(log_, {}); }

}  // namespace monsoon
