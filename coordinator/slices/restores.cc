#include "coordinator/slices/restores.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/slices/lost_pushes.h"
#include "proto/downpour.pb.h"

namespace monsoon {

// ---- orders ------------------------------------------------------------------

void Restores::OnShardRestarted(JobRecord* job, const ShardChange& change, const std::string& text,
                                absl::Duration now) {
  SliceRestore& restore = job->restores[change.shard];
  if (!restore.last_seen) {
    restore.last_seen = now - change.silent;
  }
  job->checkpoints.ForgetShard(change.shard);
  if (job->stage() != JOB_ENDED) {
    job->AddEvent(now, "shard_restarted", ShardName(change.shard), text);
  }
}

ShardCommand Restores::RestoreCommand(const JobRecord& job, uint32_t shard) const {
  ShardCommand command = CommandFor(job, shard, ShardCommand::Kind::kRestoreJob);
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
  const uint64_t fallen = job.checkpoints.state().fallen_back_to();
  const uint64_t last = fallen > 0 ? fallen : held;  // a shard may have gone on from an older one
  const uint64_t newest = job.stage() == JOB_ACTIVE ? last : std::max<uint64_t>(last, 1);
  // The older of a shard's two generations is what workers go by, so that the one before `held`
  // will do as well, or an older one that a shard has gone on from since the one before was damaged
  // there; and no file of `held` at all means another folder.
  const uint64_t before =
      std::max(job.checkpoints.state().held_before(), std::min<uint64_t>(held, 1));
  request.set_least_generation(pushed_to ? before : newest);
  if (job.stage() != JOB_ENDED) {
    const auto& left_by = job.checkpoints.state().left_by();
    const int index = static_cast<int>(shard);
    request.set_held(std::max(held, index < left_by.size() ? left_by[index] : uint64_t{0}));
    *request.mutable_left() = job.checkpoints.state().left();
    if (const Downpour& downpour = job.plan.job.downpour(); downpour.local().has_fragments()) {
      *request.mutable_fragments() = downpour.local().fragments();
    }
  }
  request.set_given_up_by(job.restores[shard].given_up_by);
  if (View(job).AwaitsFirstGeneration()) {
    // An older part is of parameters that another program wrote before.
    const CheckpointState& state = job.checkpoints.state();
    request.set_least_generation(state.ordered() > 0 ? state.ordered() : state.last() + 1);
  }
  if (View(job).CanReturn()) {
    request.set_generation(held);
  }
  request.set_attempt(job.state().sandblaster().attempt());
  for (const DurableSession& session : job.state().session()) {
    if (session.state() != DurableSession::CLOSING) {
      *request.add_session() = job.ledger()->Key(session);
      *request.add_session_member() = session.member();
    }
  }
  return command;
}

void Restores::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).state != ShardView::State::kUp) {
      continue;
    }
    const uint64_t epoch = shards_.shard(shard).status.shard_epoch();
    // Ended jobs come after those that people wait for.
    const bool urgent = std::ranges::any_of(
        jobs_.active(), [&](const JobRecord* job) { return View(*job).AwaitsRestore(shard); });
    for (const auto& job : jobs_.jobs()) {
      // A minimiser that was called off may still be at the slices.
      if ((urgent && !job->active()) ||
          (job->procedure() != nullptr && job->procedure()->driven()) ||
          !View(*job).AwaitsRestore(shard)) {
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

absl::StatusOr<std::vector<std::string>> Restores::GiveUp(uint32_t shard, const std::string& by,
                                                          absl::Duration now) {
  if (shard >= shards_.size()) {
    return absl::NotFoundError(absl::StrCat("the cluster file has no ", ShardName(shard)));
  }
  if (shards_.shard(shard).state != ShardView::State::kUp) {
    return absl::FailedPreconditionError(absl::StrCat(
        ShardName(shard), " at ", cluster_.ps(static_cast<int>(shard)).address(),
        " does not answer: start it first, with an empty state folder if its own is gone; it says "
        "then what that lacks"));
  }
  std::vector<std::string> waiting;
  for (const auto& job : jobs_.jobs()) {
    if (!View(*job).AwaitsRestore(shard)) {
      continue;
    }
    waiting.push_back(job->id());
    SliceRestore& restore = job->restores[shard];
    if (restore.given_up_by.empty()) {
      Log(absl::StrCat("job ", job->id(), ": ", by, " gives up ", ShardName(shard),
                       "'s state folder, unless it is there"));
    }
    restore.given_up_by = by;
    restore.not_before = now;
  }
  return waiting;
}

// ---- answers -----------------------------------------------------------------

void Restores::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                        absl::Duration now) {
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
  if (!View(*job).AwaitsRestore(shard)) {
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
      Log(absl::StrCat("job ", job->id(), ": ", ShardName(shard),
                       " cannot restore its slice yet: ", restore.waits_for));
    }
    return;
  }
  const std::string text =
      absl::StrCat(ShardName(shard), " (pid ", view.status.pid(), ") at ",
                   cluster_.ps(static_cast<int>(shard)).address(), " has restarted and cannot ",
                   "restore its slice: ", status.message());
  Log(absl::StrCat("job ", job->id(), ": ", text));
  slices_->LoseSlices(job, Slices::Loss::kNotRestored, text, now);
}

void Restores::FinishRestore(JobRecord* job, uint32_t shard, const RestoreShardJobReply& reply,
                             absl::Duration now) {
  SliceRestore& restore = job->restores[shard];
  // Else it took part in a batch's return.
  const bool came_back = reply.shard_epoch() != job->state().shard_epoch(static_cast<int>(shard));
  const std::string source = reply.generation() == 0
                                 ? "with its initial parameters"
                                 : absl::StrCat("from generation ", reply.generation());
  std::string text = absl::StrCat(ShardName(shard), " (pid ", shards_.shard(shard).status.pid(),
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
    update->mutable_shard_created()->set_generation(reply.generation());
  });
  job->ready_round = registry_->poll_round;  // Only a later poll must show the slice.
  job->figures.catching_up = true;
  if (came_back && job->hands_over()) {
    job->leaving_generation = 0;  // what is ordered already lacks what is brought again
  }
  if (came_back) {
    job->AddEvent(now, "shard_restored", ShardName(shard), text);
  }
  Log(text);
  for (LostPushes lost : reply.lost()) {
    lost.set_shard(shard);
    NoteLostPushes(job, lost, now, registry_);
  }
}

}  // namespace monsoon
