#include "coordinator/slices/slices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/job/shard_reason.h"

namespace monsoon {

// ---- made and freed ----------------------------------------------------------

const JobRecord* Slices::HeldSource(const JobRecord& job) const {
  if (!job.state().has_source()) {
    return nullptr;
  }
  const JobRecord* const source = jobs_.Lookup(job.state().source().job());
  const bool held = source != nullptr &&
                    source->state().term() == job.state().source().job_term() &&
                    source->stage() == JOB_ENDED && !source->state().slices_lost();
  return held ? source : nullptr;
}

bool Slices::AwaitsSource(const JobRecord& job) const {
  const JobRecord* const source = HeldSource(job);
  return source != nullptr && View(*source).AwaitsShard();
}

void Slices::AdvanceCreation(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_QUEUED && job->state().has_source() && HeldSource(*job) == nullptr) {
    registry_->End(
        job, FAILED,
        absl::StrCat("its slices were to be made from those of ", job->state().source().job(),
                     ", which are not on the shards any more", View(*job).ResumeHint()),
        now);
    return;
  }
  if (job->stage() == JOB_QUEUED && shards_.all_up() && !AwaitsSource(*job)) {
    job->ChangeStage(JOB_CREATING, now);
    job->fanout = ShardFanout(shards_.size());
    job->fanout_after = registry_->calls;
  }
  if (job->stage() != JOB_CREATING || !job->fanout.done()) {
    return;
  }
  if (!job->fanout.error().ok()) {
    registry_->End(job, FAILED,
                   absl::StrCat("its slices cannot be created: ", job->fanout.error().message(),
                                View(*job).ResumeHint()),
                   now);
    return;
  }
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).status.shard_epoch() !=
        job->state().shard_epoch(static_cast<int>(shard))) {
      return;  // Restarted meanwhile: the next poll tells, and the job begins anew.
    }
  }
  job->ready_round = registry_->poll_round;
  job->ChangeStage(JOB_READY, now);
}

void Slices::WatchClient(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_READY && job->waits_for_client() && !job->written_by_program() &&
      now - FromNanos(job->state().ready_ns()) > kInitTimeout) {
    registry_->End(job, FAILED,
                   absl::StrCat("the client has not written the parameters within ",
                                absl::FormatDuration(kInitTimeout)),
                   now);
  }
}

const JobRecord* Slices::MadeFrom(const JobRecord& job) const {
  for (const auto& next : jobs_.jobs()) {
    if (next->stage() < JOB_READY && HeldSource(*next) == &job) {
      return next.get();
    }
  }
  return nullptr;
}

void Slices::BeginDeletion(JobRecord* job, absl::Duration now) {
  job->ChangeStage(JOB_DELETING, now);
  job->fanout = ShardFanout(shards_.size());
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (!job->state().slices_begun() || shards_.shard(shard).state != ShardView::State::kUp) {
      job->fanout.Skip(shard);
    }
  }
  Log(absl::StrCat("job ", job->id(), " is being deleted"));
}

void Slices::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() == JOB_CREATING || job->stage() == JOB_DELETING) {
      // A shard says in its first answer of this life what it has and what it has heard of, and in
      // a poll that began after a slice had been made whether that one has to make way: one that
      // stayed would keep its sessions, and nobody could write its initial parameters.
      const uint64_t made = job->stage() == JOB_CREATING ? job->ready_round : 0;
      std::vector<bool> held_back(shards_.size());
      for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
        held_back[shard] = shards_.shard(shard).round <= made;
      }
      for (const uint32_t shard : job->fanout.Due(now, held_back)) {
        ShardCommand command;
        command.shard = shard;
        command.job = job->id();
        command.job_term = job->state().term();
        if (job->stage() == JOB_CREATING) {
          command.kind = ShardCommand::Kind::kCreateJob;
          job->figures.creations[shard].told = shards_.shard(shard).status.shard_epoch();
          command.create = job->plan.CreateRequest(job->id(), shard, job->state().init());
          command.create.set_job_term(job->state().term());
          if (job->state().has_source()) {
            *command.create.mutable_source() = job->state().source();
          }
          command.create.set_term(term());
          // Parts of slices before it go, too, also of those that died with their shard.
          command.replace = shards_.job(shard, job->id(), job->state().term()) != nullptr ||
                            job->checkpoints.state().last() > 0;
        } else {
          command.kind = ShardCommand::Kind::kDeleteJob;
        }
        commands->push_back(std::move(command));
      }
    }
  }
}

void Slices::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                      absl::Duration now) {
  // A shard that was started anew has not got its slice of the source back yet; where that is gone
  // the next poll tells.
  const bool source_returns = absl::IsNotFound(answer.status) && HeldSource(*job) != nullptr;
  const absl::Status status =
      source_returns ? absl::UnavailableError(answer.status.message()) : answer.status;
  if (command.kind == ShardCommand::Kind::kDeleteJob) {
    if (job->stage() == JOB_DELETING) {
      job->fanout.OnResult(command.shard, status, now);
    }
    return;
  }
  if (job->stage() == JOB_CREATING && command.call > job->fanout_after) {
    if (status.ok()) {
      job->figures.creations[command.shard] = SliceCreation();
      job->Make([&](StateUpdate* update) {
        update->mutable_shard_created()->set_shard(command.shard);
        update->mutable_shard_created()->set_epoch(answer.shard_epoch);
      });
    }
    job->fanout.OnResult(
        command.shard,
        status.ok() ? status
                    : absl::Status(status.code(),
                                   absl::StrCat(ShardName(command.shard), ": ", status.message())),
        now);
  }
}

// ---- what polls say ----------------------------------------------------------

void Slices::RememberShard(uint32_t shard) {
  const ShardView& view = shards_.shard(shard);
  if (view.state != ShardView::State::kUp) {
    return;
  }
  ShardSeen seen;
  seen.set_shard(shard);
  seen.set_epoch(view.status.shard_epoch());
  seen.set_pid(view.status.pid());
  seen.set_state_dir(view.status.state_dir());
  const ShardSeen* const known = registry_->writer.state().FindShard(shard);
  if (known == nullptr || known->epoch() != seen.epoch() || known->pid() != seen.pid() ||
      known->state_dir() != seen.state_dir()) {
    StateUpdate update;
    *update.mutable_shard_seen() = std::move(seen);
    registry_->writer.Apply(update);
  }
}

void Slices::RecordShards(uint64_t round) {
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

void Slices::FindMissingSlices(uint32_t shard, uint64_t round, absl::Duration now) {
  for (const auto& job : jobs_.jobs()) {
    const bool expected = job->state().slices_ready() && !job->state().slices_lost() &&
                          job->stage() != JOB_DELETING && round > job->ready_round &&
                          shards_.shard(shard).round == round && !View(*job).AwaitsRestore(shard);
    if (expected && shards_.job(shard, job->id(), job->state().term()) == nullptr) {
      const std::string text =
          absl::StrCat(ShardName(shard), " (pid ", shards_.shard(shard).status.pid(), ") at ",
                       cluster_.ps(static_cast<int>(shard)).address(),
                       " has no slice of it any more: somebody else deleted it");
      Log(absl::StrCat("job ", job->id(), ": ", text));
      LoseSlices(job.get(), Loss::kDeleted, text, now);
    }
  }
}

void Slices::OnFreshShard(JobRecord* job, const ShardChange& change, const std::string& text,
                          absl::Duration now) {
  CountDeath(job, change, text, now);
  LoseSlices(job, Loss::kRestarted, text, now);
}

void Slices::CountDeath(JobRecord* job, const ShardChange& change, const std::string& text,
                        absl::Duration now) {
  SliceCreation& creation = job->figures.creations[change.shard];
  if (job->stage() != JOB_CREATING || creation.told == 0 ||
      creation.told == shards_.shard(change.shard).status.shard_epoch()) {
    return;
  }
  creation.told = 0;
  ++creation.deaths;
  const std::string task = ShardName(change.shard);
  job->AddEvent(now, "shard_restarted", task, absl::StrCat(text, " before it had made its slice"));
  if (creation.deaths < kMostCreationDeaths) {
    return;
  }
  const double mib = static_cast<double>(job->plan.shard_bytes[change.shard]) / (1 << 20);
  registry_->End(
      job, FAILED,
      absl::StrFormat("%s; it has died %d times in a row while it made its slice of job %s, which "
                      "takes %.1f MiB there: is that more memory than the process may have? Its "
                      "log, or the kernel's (dmesg), tells how it died. Give it more memory, or "
                      "more ps tasks to the cluster; ps.memory_limit_mib refuses such a job at "
                      "submit",
                      text, creation.deaths, job->id(), mib),
      now);
}

void Slices::LoseSlices(JobRecord* job, Loss loss, const std::string& reason, absl::Duration now) {
  const bool gone = loss != Loss::kUnreachable;
  if (!job->state().slices_begun() || job->stage() == JOB_DELETING) {
    return;
  }
  // Initial parameters that a program has, or another job's slices, can be taken again as long as
  // nobody has trained.
  const bool has_sessions = job->ledger() != nullptr && !job->ledger()->empty();
  const bool again = (job->written_by_program() && job->stage() <= JOB_ACTIVE) ||
                     (HeldSource(*job) != nullptr && job->stage() < JOB_ACTIVE);
  const bool touched = (has_sessions && !again) || job->started().has_value();
  const bool written = touched || (job->state().init() && job->state().slices_ready() && !again);
  const char* const kinds[] = {"shard_lost", "shard_restarted", "slice_deleted",
                               "shard_not_restored"};
  const char* const kind = kinds[static_cast<int>(loss)];
  const std::string task = reason.substr(0, reason.find(' '));
  if (job->ended_or_deleting()) {
    if (gone) {
      job->Make([](StateUpdate* update) { update->mutable_slices_lost(); });
    }
    if (loss == Loss::kNotRestored) {
      job->AddEvent(now, kind, task, reason);
    }
    return;
  }
  if (!gone && !touched) {
    return;  // Nothing depends on it yet: wait for it to come back.
  }
  if (!written) {
    // Only initial values were there: make them again.
    if (job->stage() != JOB_QUEUED) {
      job->ChangeStage(JOB_QUEUED, now);
    }
    jobs_.NoLongerActive(job);
    if (job->written_by_program()) {
      job->initial_writer.is_there = false;
      job->AddEvent(now, kind, task,
                    absl::StrCat(reason,
                                 "; its initial parameters are written "
                                 "again"));
    }
    return;
  }
  for (uint32_t shard = 0; shard < shards_.size() && job->ledger() != nullptr; ++shard) {
    if (gone || shards_.shard(shard).state == ShardView::State::kLost) {
      job->ledger()->SkipShard(shard);
    }
  }
  if (gone) {
    job->Make([](StateUpdate* update) { update->mutable_slices_lost(); });
  }
  job->AddEvent(now, kind, task, reason);
  registry_->End(job, FAILED,
                 absl::StrCat(reason, "; its slice of job ", job->id(),
                              gone ? " is lost" : " cannot be reached", View(*job).ResumeHint()),
                 now);
}

// ---- a job that is there -----------------------------------------------------

bool Slices::Advance(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_ENDING && job->end_state() != SUCCEEDED) {
    AbandonShards(job, now);
  }
  return true;
}

void Slices::AbandonShards(JobRecord* job, absl::Duration now) {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const ShardView& view = shards_.shard(shard);
    const bool restarted =
        view.status.shard_epoch() != job->state().shard_epoch(static_cast<int>(shard));
    if (!restarted && view.state != ShardView::State::kLost) {
      continue;
    }
    job->ledger()->SkipShard(shard);
    if (restarted && !job->state().slices_lost()) {
      job->Make([](StateUpdate* update) { update->mutable_slices_lost(); });
      job->AddEvent(now, "shard_not_restored", ShardName(shard),
                    "the job ended before its slice was restored");
    }
  }
}

std::string Slices::WaitsFor(const JobRecord& job, Moment moment) const {
  if (const std::string shards = ShardReason(job, *registry_, moment.now); !shards.empty()) {
    return absl::StrCat("waits for ", shards);
  }
  if (job.stage() == JOB_QUEUED && AwaitsSource(job)) {
    const JobRecord& source = *HeldSource(job);
    return absl::StrCat("its slices are made from those of ", source.id(), ", which waits for ",
                        ShardReason(source, *registry_, moment.now));
  }
  if (job.active() || (job.stage() == JOB_READY && job.written_by_program())) {
    return "";
  }
  return job.stage() == JOB_READY ? "waits for its client to write the initial parameters"
                                  : "its slices are being created";
}

void Slices::Recover(JobRecord* job, absl::Duration now) {
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
  if (job->stage() == JOB_CREATING || job->stage() == JOB_DELETING) {
    job->fanout = ShardFanout(shards_.size());
  }
}

}  // namespace monsoon
