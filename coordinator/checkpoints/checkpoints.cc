#include "coordinator/checkpoints/checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/job/batch_order.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/job/shard_reason.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using Activity = CheckpointSchedule::Activity;
using Phase = JobProcedure::Phase;

// What a shard may not remove: it may have been started anew, and not have them in memory.
KnownJobs Known(const JobTable& jobs) {
  KnownJobs known;
  for (const auto& job : jobs.jobs()) {
    KnownJobs::KnownJob* const one = known.add_job();
    one->set_job(job->id());
    one->set_job_term(job->state().term());
  }
  return known;
}

}  // namespace

// ---- who wants one -----------------------------------------------------------

absl::StatusOr<CheckpointOrder> Checkpoints::Ask(JobRecord* job) {
  std::string why;
  if (job->plan.job.checkpoint().off()) {
    why = "its job file says checkpoint { off: true }";
  } else if (const std::string without = KeepNothing(shards_); !without.empty()) {
    why = absl::StrCat("it is kept in memory only: ", without);
  } else if (!job->state().memory_only().empty()) {
    why = absl::StrCat("it went on in memory only: ", job->state().memory_only());
  } else if (job->state().slices_lost()) {
    why = "it has lost parameters";
  } else if (job->stage() == JOB_DELETING) {
    why = "it is being deleted";
  } else if (!View(*job).HasParameters()) {
    why = "it has not begun to train";
  }
  if (!why.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no checkpoint of job ", job->id(), " (",
                                                      JobState_Name(job->job_state()), "): ", why));
  }
  CheckpointOrder order;
  order.set_job(job->id());
  order.set_generation(job->checkpoints.Request(View(*job).SessionsAreClosed()));
  return order;
}

void Checkpoints::CheckpointClientsParameters(JobRecord* job) {
  if (job->state().init() && View(*job).IsPushedTo() && View(*job).IsDurable()) {
    job->checkpoints.Request(/*over=*/false, "its initial parameters are a client's");
  }
}

void Checkpoints::CheckpointBeforeLeaving(JobRecord* job) {
  if (View(*job).IsPushedTo() && job->procedure()->phase() >= Phase::kLeaving &&
      job->leaving_generation == 0 && View(*job).IsDurable() && job->procedure()->brought_back()) {
    job->leaving_generation = job->checkpoints.Request(
        /*over=*/false, job->hands_over() ? "Downpour SGD is over" : "replicas finish");
  }
}

void Checkpoints::CheckpointAfterLoss(JobRecord* job, uint32_t worker) {
  if (job->lost_workers.erase(worker) > 0 && View(*job).IsPushedTo() &&
      View(*job).HasParameters() && View(*job).IsDurable()) {
    job->checkpoints.Request(/*over=*/false, absl::StrCat("worker/", worker, " was lost"),
                             /*generations=*/2);
  }
}

void Checkpoints::NoteWaitingWorker(uint32_t worker, const HeartbeatRequest& request,
                                    absl::Duration now) {
  JobRecord* const job = jobs_.JobOfWorker(worker);
  if (job == nullptr) {
    return;
  }
  const bool waits = request.wants_checkpoint() && View(*job).IsPushedTo() &&
                     View(*job).IsDurable() && job->ledger()->IsOpen(request.session());
  job->checkpoints.NoteWaiting(worker, waits, now);
  if (waits && request.stands_still()) {
    GiveUpStorage(job, now);
  }
}

void Checkpoints::GiveUpStorage(JobRecord* job, absl::Duration now) {
  const std::string error = job->checkpoints.error();
  if (job->plan.job.checkpoint().on_storage_failure() != CONTINUE_IN_MEMORY || error.empty() ||
      !View(*job).IsDurable()) {
    return;
  }
  job->checkpoints.GiveUp(error);
  const uint64_t held = job->checkpoints.state().held();
  const std::string text = absl::StrCat(
      "goes on in memory only (on_storage_failure: CONTINUE_IN_MEMORY): ", error, "; ",
      held == 0 ? "no generation was written"
                : absl::StrCat("generation ", held, " is the newest that was written"));
  job->AddEvent(now, "memory_only", "", text);
  Log(absl::StrCat("job ", job->id(), ": ", text));
}

// ---- orders ------------------------------------------------------------------

Activity Checkpoints::ActivityOf(const JobRecord& job) const {
  if (!View(job).HasParameters()) {
    return Activity::kBusy;
  }
  JobProcedure* const procedure = job.procedure();
  if (procedure != nullptr && !procedure->pushes() && !procedure->trained() &&
      (job.stage() == JOB_ACTIVE || procedure->driven())) {
    return procedure->stands_still() ? Activity::kStill : Activity::kBusy;
  }
  if (job.stage() == JOB_ENDED) {
    return Activity::kStill;
  }
  if (job.stage() == JOB_ENDING) {
    return View(job).SessionsAreClosed() ? Activity::kOver : Activity::kBusy;
  }
  if (procedure->stored() != nullptr && !procedure->stored()->whole()) {
    return Activity::kBusy;
  }
  const Phase phase = procedure->phase();
  const bool trains = procedure->pushes() && phase > Phase::kIdle && phase <= Phase::kDraining;
  return trains ? Activity::kTrains : Activity::kStill;
}

CheckpointContext Checkpoints::MakeContext(const JobRecord& job, const std::string& reason,
                                           Moment moment) const {
  CheckpointContext context;
  context.set_ordered_ms(moment.unix_ms);
  context.set_reason(reason);
  context.set_elapsed_s(job.state().resume().context().elapsed_s() +
                        absl::ToDoubleSeconds(job.elapsed(moment.now)));
  if (job.state().has_downpour()) {
    // All shards have acknowledged what is done, so what is cut from now on has it.
    const DownpourState& state = job.state().downpour();
    DownpourProgress* const progress = context.mutable_downpour();
    progress->set_steps(state.steps());
    progress->set_epochs_done(state.epochs_done());
    *progress->mutable_epoch() = state.epoch();
    progress->set_blocks_done(state.blocks_done());
    progress->set_examples_done(state.examples_done());
    for (const TakenStream& stream : state.stream()) {
      if (stream.position().has_state()) {
        *progress->add_stream() = stream.position();
      }
    }
  }
  if (job.state().has_synchronous()) {
    // What the shards have is what was written last, or what they began with.
    const SynchronousState& state = job.state().synchronous();
    const SynchronousPosition& at = state.written() > 0 ? state.written_at() : state.resumed();
    *context.mutable_synchronous() = at;
    *context.mutable_downpour() = BatchOrder(job.plan.examples, job.plan.job.batch_size())
                                      .ProgressAt(at, job.plan.job.block_examples());
  }
  if (const auto& iterations = job.state().sandblaster().iteration(); !iterations.empty()) {
    context.set_iterations(iterations.rbegin()->iteration());
  }
  if (job.state().has_best()) {
    *context.mutable_best() = job.state().best();
  }
  if (const uint32_t reductions = job.rate_reductions(); reductions > 0) {
    // Of its job this alone, the rest is the plan's: whoever resumes it goes on with its rate.
    context.mutable_job()
        ->mutable_downpour()
        ->mutable_optimizer()
        ->mutable_schedule()
        ->mutable_plateau()
        ->set_reductions(reductions);
  }
  context.set_final(View(job).SessionsAreClosed() && job.end_state() == SUCCEEDED);
  return context;
}

void Checkpoints::OrderCheckpoint(JobRecord* job, Activity activity, Moment moment,
                                  const MinimizerStateFunction& state) {
  // To a shard that is silent the order would come late, and the others' parts be stale.
  const JobView view = View(*job);
  if (!view.IsDurable() || !view.HasParameters() || view.AwaitsShard()) {
    return;
  }
  // What a close has lost a shard tells for a few generations, to whoever asks again.
  if (job->ledger() != nullptr && job->ledger()->closing()) {
    return;
  }
  const bool to_be_tested = job->procedure() != nullptr && job->procedure()->WantsTestGeneration();
  if (to_be_tested) {
    job->checkpoints.Request(/*over=*/false, "the test set is run over it");
  }
  const auto reason =
      job->checkpoints.Wanted(activity, job->started().value_or(moment.now), moment.now);
  if (!reason) {
    return;
  }
  CheckpointContext context = MakeContext(*job, *reason, moment);
  context.set_to_be_tested(to_be_tested);
  if (job->batch_under_way()) {
    BatchSnapshot snapshot = job->procedure()->MakeSnapshot(state, &context);
    job->checkpoints.Order(std::move(context), /*at_end=*/false, moment.now);
    snapshot.set_generation(job->checkpoints.state().ordered());
    job->Make(
        [&](StateUpdate* update) { *update->mutable_batch_snapshot() = std::move(snapshot); });
  } else {
    job->checkpoints.Order(std::move(context), View(*job).SessionsAreClosed(), moment.now);
  }
  if (to_be_tested) {
    job->procedure()->UseTestGeneration(job->checkpoints.state().ordered(), moment.now);
  }
}

void Checkpoints::OrderAll(Moment moment) {
  // A disk that cannot be written is given up before the next order would go to it; what the
  // schedule has to tell comes after what it was asked.
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() < JOB_ACTIVE || job->stage() == JOB_DELETING) {
      continue;
    }
    if (View(*job).WaitsForGeneration()) {
      GiveUpStorage(job.get(), moment.now);
    }
    OrderCheckpoint(job.get(), ActivityOf(*job), moment);
    look_ |= job->stage() < JOB_ENDED && job->checkpoints.WantsPoll(moment.now);
    TakeCheckpointEvents(job.get(), moment.now);
  }
  if (shards_.all_up()) {
    for (JobRecord* const job : jobs_.active()) {
      TellOfMemoryOnly(job, moment.now);
    }
  }
}

void Checkpoints::TellOfMemoryOnly(JobRecord* job, absl::Duration now) {
  if (std::exchange(job->told_memory_only, true)) {
    return;
  }
  const std::string without = KeepNothing(shards_);
  bool some = false;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    some |= !shards_.shard(shard).status.state_dir().empty();
  }
  if (some && !without.empty() && !job->plan.job.checkpoint().off()) {
    const std::string text = absl::StrCat("no checkpoints: ", without);
    job->AddEvent(now, "memory_only", "", text);
    Log(absl::StrCat("job ", job->id(), ": ", text));
  }
}

void Checkpoints::TakeCheckpointEvents(JobRecord* job, absl::Duration now) {
  for (const CheckpointSchedule::Event& event : job->checkpoints.TakeEvents()) {
    Log(absl::StrCat("job ", job->id(), " ", event.kind, ": ",
                     event.task.empty() ? "" : event.task + " ", event.text));
    job->AddEvent(now, event.kind, event.task, event.text);
  }
}

void Checkpoints::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (const auto& job : jobs_.jobs()) {
    if (!View(*job).HasParameters()) {
      continue;
    }
    for (const uint32_t shard : job->checkpoints.Due(job->stage() == JOB_ENDED, now)) {
      ShardCommand command;
      command.kind = ShardCommand::Kind::kCheckpoint;
      command.shard = shard;
      command.job = job->id();
      command.job_term = job->state().term();
      CheckpointRequest& request = command.checkpoint;
      SetJob(*job, &request);
      request.set_generation(job->checkpoints.state().ordered());
      *request.mutable_context() = job->checkpoints.state().context();
      *request.mutable_context()->mutable_job() = JobOfGeneration(*job);
      if (job->checkpoints.state().held() == 0) {
        *request.mutable_known_jobs() = Known(jobs_);
      }
      commands->push_back(std::move(command));
    }
  }
}

void Checkpoints::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                           absl::Duration now) {
  job->checkpoints.OnResult(command.shard, command.checkpoint.generation(),
                            View(*job).Excused(command, answer).status, now);
}

void Checkpoints::RecordCheckpoints(uint32_t shard, absl::Duration now) {
  for (const auto& job : jobs_.jobs()) {
    if (!job->state().slices_ready() || job->state().slices_lost() ||
        job->stage() == JOB_DELETING) {
      continue;
    }
    const ShardJobStatus* const status = shards_.job(shard, job->id(), job->state().term());
    // From which part a shard has gone on its answer tells, and that may be lost: until then nobody
    // knows which generations it has.
    if (status != nullptr && !View(*job).AwaitsRestore(shard)) {
      job->checkpoints.NoteShard(shard, *status, now);
      // Initial parameters that are lost another program writes; a batch goes back to what all
      // have.
      if (View(*job).IsPushedTo() && !View(*job).AwaitsFirstGeneration()) {
        job->checkpoints.KeepToTold(shard);
      }
      if (job->procedure() != nullptr) {
        job->procedure()->NoteHeldGeneration(job->checkpoints.state().held());
      }
      TakeCheckpointEvents(job.get(), now);  // before what follows from it
    }
  }
}

void Checkpoints::Recover(JobRecord* job, absl::Duration) {
  job->told_memory_only |= job->active();
  if (!job->state().slices_ready()) {
    return;
  }
  // Numbers and versions are known once each shard shows its slice.
  for (uint32_t shard = 0; shard < job->plan.shard_bytes.size(); ++shard) {
    job->checkpoints.ForgetShard(shard);
  }
}

// ---- the end -----------------------------------------------------------------

bool Checkpoints::Advance(JobRecord* job, absl::Duration) {
  // What has been pushed until now is ordered before it is asked whether that is held.
  CheckpointBeforeLeaving(job);
  return !View(*job).WaitsForLeaving();
}

bool Checkpoints::LastCheckpointIsDone(JobRecord* job, absl::Duration now) {
  if (!View(*job).WaitsForLastCheckpoint()) {
    return true;
  }
  if (!job->last_checkpoint_since) {
    job->last_checkpoint_since = now;
  }
  if (job->end_state() == SUCCEEDED ||
      (shards_.all_up() && now - *job->last_checkpoint_since < kLastCheckpointPatience)) {
    return false;
  }
  const CheckpointSchedule& checkpoints = job->checkpoints;
  const std::string text = absl::StrCat(
      "the last checkpoint was not written",
      !checkpoints.error().empty() ? absl::StrCat(": ", checkpoints.error())
      : !shards_.all_up()
          ? absl::StrCat(": no answer of ", MissingShards(*registry_, now))
          : absl::StrFormat(" within %.0f s", absl::ToDoubleSeconds(kLastCheckpointPatience)),
      checkpoints.state().held() > 0
          ? absl::StrCat("; generation ", checkpoints.state().held(), " is the newest")
          : "");
  job->AddEvent(now, "checkpoint_failed", "", text);
  Log(absl::StrCat("job ", job->id(), ": ", text));
  return true;
}

// ---- what people see ---------------------------------------------------------

std::string Checkpoints::WaitsForEnd(const JobRecord& job, Moment moment) const {
  const JobView view = View(job);
  if (!view.WaitsForLeaving() && !(view.WaitsForLastCheckpoint() && job.end_state() == SUCCEEDED)) {
    return "";
  }
  std::string what = "its last checkpoint";
  if (job.hands_over()) {
    // Shards that were restored get again what they had; that is ordered to be written afterwards.
    what = job.leaving_generation == 0
               ? "workers to send restored shards again what these had acknowledged"
               : "a checkpoint";
  }
  std::string reason = CheckpointReason(job, what, moment.now);
  // A shard that was restored is not written before it has what such a worker keeps for it, and
  // at its end a job has nobody left to whom the worker could lose its session.
  for (const auto& [worker, cut] : job.figures.cut) {
    absl::StrAppend(&reason, "; ", WorkerName(worker), " does not reach ", ShardName(cut.shard),
                    " at ", registry_->cluster.ps(static_cast<int>(cut.shard)).address());
  }
  return reason;
}

std::string Checkpoints::WaitsFor(const JobRecord& job, Moment moment) const {
  const JobView view = View(job);
  if (view.BatchWaitsForDisk()) {
    return CheckpointReason(job, "a checkpoint", moment.now);
  }
  if (view.WaitsForTestGeneration()) {
    return CheckpointReason(job, "a checkpoint, over which the test set is run", moment.now);
  }
  if (view.AwaitsFirstGeneration()) {
    return CheckpointReason(
        job, "its first checkpoint, of the initial parameters that a program has written",
        moment.now);
  }
  return "";
}

std::string Checkpoints::CheckpointReason(const JobRecord& job, const std::string& what,
                                          absl::Duration now) const {
  if (const std::string shards = ShardReason(job, *registry_, now); !shards.empty()) {
    return absl::StrCat("waits for ", what, ", and for ", shards);
  }
  const std::string& error = job.checkpoints.error();
  return absl::StrCat(
      "waits for ", what,
      error.empty() ? "" : absl::StrCat(": ", error, "; free the disk, or cancel ", "the job"));
}

// By the steady clock, since people set the other one anew at times. That one counts only what
// passed before this life of the coordinator, while perhaps none was there.
absl::Duration Checkpoints::AgeOfHeld(const JobRecord& job, absl::Duration now) const {
  if (const std::optional<absl::Duration> at = job.checkpoints.held_ordered_at()) {
    return now - *at;
  }
  const int64_t before_ms = registry_->started_unix_ms - job.checkpoints.state().held_ordered_ms();
  return absl::Milliseconds(std::max<int64_t>(before_ms, 0)) + (now - registry_->started);
}

void Checkpoints::DescribeDurability(const JobRecord& job, Moment moment,
                                     JobDescription::Durability* durability) const {
  const CheckpointState& state = job.checkpoints.state();
  durability->set_promise(View(job).IsDurable() ? "exactly_once" : "memory_only");
  *durability->mutable_lost() = job.state().lost();
  durability->set_generation(state.held());
  if (state.held() > 0) {
    durability->set_age_s(absl::ToDoubleSeconds(AgeOfHeld(job, moment.now)));
  }
  durability->set_ordered(state.ordered());
  if (job.state().has_best()) {
    *durability->mutable_best() = job.state().best();
  }
  const std::string& given_up = job.state().memory_only();
  durability->set_error(given_up.empty() ? job.checkpoints.error() : given_up);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (const std::string& folder = shards_.shard(shard).status.state_dir(); !folder.empty()) {
      durability->add_state_dir(absl::StrCat(ShardName(shard), ": ", folder));
    }
  }
  // Of those that it is on: the cluster file may have had others.
  for (const std::optional<ShardJobStatus>& status : job.figures.shard_status) {
    if (status) {
      durability->set_disk_bytes(durability->disk_bytes() + status->disk_bytes());
    }
  }
}

}  // namespace monsoon
