// CoordinatorCore: slices that are lost with a parameter server, and how one that was
// started anew gets them back.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

std::string Shard(uint32_t shard) { return absl::StrCat("ps/", shard); }
std::string Worker(uint32_t worker) { return absl::StrCat("worker/", worker); }

// "pushes 13 to 20 (24 records, rows of 8 pushes)".
std::string RangeOf(const LostPushes& lost) {
  std::vector<std::string> what;
  if (lost.records() > 0) {
    what.push_back(absl::StrCat(lost.records(), " records"));
  }
  if (lost.row_pushes() > 0) {
    what.push_back(absl::StrCat("rows of ", lost.row_pushes(), " pushes"));
  }
  return absl::StrCat("pushes ", lost.from(),
                      lost.has_to() ? absl::StrCat(" to ", lost.to())
                                    : absl::StrCat(" to ", lost.to_at_least(), " at least"),
                      " (", absl::StrJoin(what, ", "), ")");
}

bool Covers(const LostPushes& known, const LostPushes& lost) {
  return known.shard() == lost.shard() && known.worker() == lost.worker() &&
         known.incarnation() == lost.incarnation() && known.from() <= lost.from() &&
         (!known.has_to() || (lost.has_to() && lost.to() <= known.to())) &&
         known.to_at_least() >= lost.to_at_least() && known.records() >= lost.records() &&
         known.row_pushes() >= lost.row_pushes();
}

}  // namespace

// ---- which jobs --------------------------------------------------------------

bool CoordinatorCore::IsRestorable(const JobRecord& job) const {
  const bool here = job.state().slices_ready() && !job.state().slices_lost();
  if (!here || !IsDurable(job)) {
    return false;
  }
  switch (job.stage()) {
    case JOB_ACTIVE:
      return true;
    case JOB_ENDING:
      return job.end_state() == SUCCEEDED;
    case JOB_ENDED:
      // Nobody sends anything again: the parts must have all of it.
      return job.checkpoints.last_is_held();
    default:
      return false;
  }
}

bool CoordinatorCore::AwaitsRestore(const JobRecord& job, uint32_t shard) const {
  const auto index = static_cast<int>(shard);
  const auto& attempts = job.state().slice_attempt();
  const uint64_t attempt = attempts.empty() ? 0 : attempts[index];
  return IsRestorable(job) &&
         (shards_.shard(shard).status.shard_epoch() != job.state().shard_epoch(index) ||
          attempt != job.state().sandblaster().attempt());
}

bool CoordinatorCore::AwaitsShard(const JobRecord& job) const {
  bool awaits = !shards_.all_up();
  for (uint32_t shard = 0; shard < shards_.size() && !awaits; ++shard) {
    awaits = AwaitsRestore(job, shard);
  }
  return awaits;
}

std::string CoordinatorCore::ShardReason(const JobRecord& job, absl::Duration now) const {
  if (!shards_.all_up()) {
    const bool restorable = IsRestorable(job);
    bool lost = false;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      lost |= shards_.shard(shard).state == ShardView::State::kLost;
    }
    return absl::StrCat(MissingShards(now),
                        restorable && lost ? "; the job goes on when it is started again, which "
                                             "`coordinator up` does; else do it by hand"
                                           : "");
  }
  std::vector<std::string> restoring;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (AwaitsRestore(job, shard)) {
      const SliceRestore& restore = job.restores[shard];
      restoring.push_back(absl::StrCat(
          Shard(shard), " at ", cluster_.ps(static_cast<int>(shard)).address(), " (pid ",
          shards_.shard(shard).status.pid(), ") to restore its slice",
          restore.waits_for.empty() ? "" : absl::StrCat(", which says: ", restore.waits_for)));
    }
  }
  return absl::StrJoin(restoring, ", ");
}

// ---- orders ------------------------------------------------------------------

void CoordinatorCore::AwaitRestore(JobRecord* job, const ShardChange& change,
                                   const std::string& text, absl::Duration now) {
  SliceRestore& restore = job->restores[change.shard];
  if (!restore.last_seen) {
    restore.last_seen = now - change.silent;
  }
  job->checkpoints.ForgetShard(change.shard);
  if (job->stage() != JOB_ENDED) {
    job->AddEvent(now, "shard_restarted", Shard(change.shard), text);
  }
}

ShardCommand CoordinatorCore::RestoreCommand(const JobRecord& job, uint32_t shard) const {
  ShardCommand command;
  command.kind = ShardCommand::Kind::kRestoreJob;
  command.shard = shard;
  command.job = job.id();
  command.job_term = job.state().term();
  command.shard_epoch = shards_.shard(shard).status.shard_epoch();
  RestoreShardJobRequest& request = command.restore;
  *request.mutable_create() = job.plan.CreateRequest(job.id(), shard, job.state().init());
  request.mutable_create()->set_job_term(job.state().term());
  request.mutable_create()->set_term(term());
  // Once there is a generation, workers do not keep all they have pushed, so that initial
  // parameters will not do. Where nobody has kept anything, only the newest one will: when
  // all have left there is one, whether the coordinator has heard of it or not; and the
  // second part of a chain begins when one is held.
  const uint64_t held = job.checkpoints.state().held();
  const bool pushed_to = job.stage() == JOB_ACTIVE && job.procedure()->pushes();
  const uint64_t newest = job.stage() == JOB_ACTIVE ? held : std::max<uint64_t>(held, 1);
  request.set_least_generation(pushed_to ? std::min<uint64_t>(held, 1) : newest);
  if (AwaitsFirstGeneration(job)) {
    // An older part is of parameters that another program wrote before.
    const CheckpointState& state = job.checkpoints.state();
    request.set_least_generation(state.ordered() > 0 ? state.ordered() : state.last() + 1);
  }
  if (CanReturn(job)) {
    request.set_generation(held);
  }
  request.set_attempt(job.state().sandblaster().attempt());
  for (const DurableSession& session : job.state().session()) {
    if (session.state() != DurableSession::CLOSING) {
      *request.add_session() = job.ledger()->Key(session);
    }
  }
  return command;
}

void CoordinatorCore::TakeRestoreCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).state != ShardView::State::kUp) {
      continue;
    }
    const uint64_t epoch = shards_.shard(shard).status.shard_epoch();
    // Ended jobs come after those that people wait for.
    const bool urgent = std::ranges::any_of(
        active_, [&](const JobRecord* job) { return AwaitsRestore(*job, shard); });
    for (const auto& job : jobs_.jobs()) {
      // A minimiser that was called off may still be at the slices.
      if ((urgent && !job->active()) ||
          (job->procedure() != nullptr && job->procedure()->driven()) ||
          !AwaitsRestore(*job, shard)) {
        continue;
      }
      SliceRestore& restore = job->restores[shard];
      if (restore.epoch != epoch) {
        restore = {.epoch = epoch, .last_seen = restore.last_seen};
      }
      if (!restore.in_flight && now >= restore.not_before) {
        restore.in_flight = true;
        commands->push_back(RestoreCommand(*job, shard));
      }
    }
  }
}

ShardAnswer CoordinatorCore::Excused(const JobRecord& job, const ShardCommand& command,
                                     const ShardAnswer& answer) const {
  const bool closes = command.kind == ShardCommand::Kind::kCloseSession;
  if (closes || !absl::IsNotFound(answer.status) || !IsRestorable(job)) {
    return answer;
  }
  return {.status = absl::UnavailableError(answer.status.message())};
}

// ---- answers -----------------------------------------------------------------

void CoordinatorCore::OnRestored(JobRecord* job, const ShardCommand& command,
                                 const ShardAnswer& answer, absl::Duration now) {
  const uint32_t shard = command.shard;
  SliceRestore& restore = job->restores[shard];
  const ShardView& view = shards_.shard(shard);
  const bool current = restore.epoch == command.shard_epoch &&
                       view.status.shard_epoch() == command.shard_epoch &&
                       command.restore.attempt() == job->state().sandblaster().attempt();
  if (!current) {
    return;  // Of an earlier life, or too late.
  }
  restore.in_flight = false;
  restore.not_before = now + kCommandRetry;
  const absl::Status& status = answer.status;
  if (status.ok() && (answer.restored.shard_epoch() != command.shard_epoch ||
                      answer.restored.attempt() != command.restore.attempt())) {
    return;  // Restarted once more, which the next poll tells.
  }
  if (!AwaitsRestore(*job, shard)) {
    return;  // It is not wanted any more.
  }
  if (status.ok()) {
    FinishRestore(job, shard, answer.restored, now);
    return;
  }
  // Calls that are ending may still hold the memory of the slice before.
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
      absl::IsResourceExhausted(status)) {
    if (restore.waits_for != status.message()) {
      restore.waits_for = std::string(status.message());
      Log(absl::StrCat("job ", job->id(), ": ", Shard(shard),
                       " cannot restore its slice yet: ", restore.waits_for));
    }
    return;
  }
  const std::string text =
      absl::StrCat(Shard(shard), " (pid ", view.status.pid(), ") at ",
                   cluster_.ps(static_cast<int>(shard)).address(), " has restarted and cannot ",
                   "restore its slice: ", status.message());
  Log(absl::StrCat("job ", job->id(), ": ", text));
  LoseSlices(job, SliceLoss::kNotRestored, text, now);
}

void CoordinatorCore::FinishRestore(JobRecord* job, uint32_t shard,
                                    const RestoreShardJobReply& reply, absl::Duration now) {
  SliceRestore& restore = job->restores[shard];
  // Else it took part in a batch's return.
  const bool came_back = reply.shard_epoch() != job->state().shard_epoch(static_cast<int>(shard));
  const std::string source = reply.generation() == 0
                                 ? "with its initial parameters"
                                 : absl::StrCat("from generation ", reply.generation());
  std::string text = absl::StrCat(Shard(shard), " (pid ", shards_.shard(shard).status.pid(),
                                  ") has its slice of ", job->id(), " again, ", source);
  if (restore.last_seen) {
    absl::StrAppendFormat(&text, "; it was away for %.1f s",
                          absl::ToDoubleSeconds(now - *restore.last_seen));
  }
  if (reply.skipped_size() > 0) {
    absl::StrAppend(&text, "; passed over: ", absl::StrJoin(reply.skipped(), "; "));
  }
  restore = SliceRestore();
  job->Make([&](StateUpdate* update) {
    update->mutable_shard_created()->set_shard(shard);
    update->mutable_shard_created()->set_epoch(reply.shard_epoch());
    update->mutable_shard_created()->set_restored(true);
    update->mutable_shard_created()->set_attempt(reply.attempt());
  });
  job->ready_round = poll_round_;  // Only a later poll must show the slice.
  job->figures.catching_up = true;
  if (came_back) {
    job->AddEvent(now, "shard_restored", Shard(shard), text);
  }
  Log(text);
  for (LostPushes lost : reply.lost()) {
    lost.set_shard(shard);
    NoteLostPushes(job, lost, now);
  }
}

void CoordinatorCore::NoteLostPushes(JobRecord* job, const LostPushes& lost, absl::Duration now) {
  const auto covers = [&lost](const LostPushes& known) { return Covers(known, lost); };
  if (std::ranges::any_of(job->state().lost(), covers)) {
    return;  // Told before the shard died once more.
  }
  job->Make([&](StateUpdate* update) { *update->mutable_pushes_lost() = lost; });
  const std::string text =
      absl::StrCat(Shard(lost.shard()), " has lost ", RangeOf(lost), " of ", Worker(lost.worker()),
                   "#", lost.incarnation(), ", which is gone and cannot send them again");
  job->AddEvent(now, "pushes_lost", Worker(lost.worker()), text);
  Log(absl::StrCat("job ", job->id(), ": ", text));
}

// ---- what is lost for good ---------------------------------------------------

std::string CoordinatorCore::ResumeHint(const JobRecord& job) const {
  if (job.procedure() == nullptr || job.procedure()->pushes() || !IsDurable(job)) {
    return "";
  }
  const uint64_t held = job.checkpoints.state().held();
  return held == 0 ? "; a batch does not go on without it, and no generation was written yet"
                   : absl::StrCat(
                         "; a batch does not go on without it: `coordinator submit "
                         "--resume=",
                         job.id(), "` goes on from generation ", held);
}

void CoordinatorCore::LoseSlices(JobRecord* job, SliceLoss loss, const std::string& reason,
                                 absl::Duration now) {
  const bool gone = loss != SliceLoss::kUnreachable;
  if (!job->state().slices_begun() || job->stage() == JOB_DELETING) {
    return;
  }
  // Initial parameters that a program has can be made again as long as nobody has trained.
  const bool has_sessions = job->ledger() != nullptr && !job->ledger()->empty();
  const bool again = job->written_by_program() && job->stage() <= JOB_ACTIVE;
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
    if (loss == SliceLoss::kNotRestored) {
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
    NoLongerActive(job);
    if (job->written_by_program()) {
      job->writer_is_there = false;
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
  End(job, FAILED,
      absl::StrCat(reason, "; its slice of job ", job->id(),
                   gone ? " is lost" : " cannot be reached", ResumeHint(*job)),
      now);
}

void CoordinatorCore::AbandonShards(JobRecord* job, absl::Duration now) {
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
      job->AddEvent(now, "shard_not_restored", Shard(shard),
                    "the job ended before its slice was restored");
    }
  }
}

}  // namespace monsoon
