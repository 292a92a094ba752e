// CoordinatorCore: checkpoints of jobs.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

using Activity = CheckpointSchedule::Activity;
using Phase = JobProcedure::Phase;

std::string Shard(uint32_t shard) { return absl::StrCat("ps/", shard); }

// Slices are there, with parameters that somebody may want.
bool HasParameters(const JobRecord& job) {
  return job.stage() >= JOB_ACTIVE && job.stage() != JOB_DELETING && job.state().slices_ready() &&
         !job.state().slices_lost() &&
         (job.started().has_value() || job.state().init() ||
          (job.procedure() != nullptr && !job.procedure()->pushes()));
}

// Pushes change the parameters, and nothing but pushes.
bool IsPushedTo(const JobRecord& job) {
  return job.stage() == JOB_ACTIVE && job.procedure() != nullptr && job.procedure()->pushes();
}

bool SessionsAreClosed(const JobRecord& job) {
  return job.stage() == JOB_ENDED || (job.stage() == JOB_ENDING && job.ledger()->empty());
}

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

std::string CoordinatorCore::KeepNothing() const {
  std::vector<std::string> without;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).status.state_dir().empty()) {
      without.push_back(Shard(shard));
    }
  }
  if (without.empty()) {
    return "";
  }
  return absl::StrCat(absl::StrJoin(without, ", "),
                      without.size() == 1 ? " has no state folder" : " have no state folder",
                      without.size() < shards_.size() ? ", though others have one" : "");
}

bool CoordinatorCore::IsDurable(const JobRecord& job) const {
  return !job.plan.job.checkpoint().off() && job.state().memory_only().empty() &&
         KeepNothing().empty();
}

Activity CoordinatorCore::ActivityOf(const JobRecord& job) const {
  if (!HasParameters(job)) {
    return Activity::kBusy;
  }
  const JobProcedure* const procedure = job.procedure();
  if (procedure != nullptr && !procedure->pushes() && !procedure->trained() &&
      (job.stage() == JOB_ACTIVE || procedure->driven())) {
    return procedure->stands_still() ? Activity::kStill : Activity::kBusy;
  }
  if (job.stage() == JOB_ENDED) {
    return Activity::kStill;
  }
  if (job.stage() == JOB_ENDING) {
    return SessionsAreClosed(job) ? Activity::kOver : Activity::kBusy;
  }
  const Phase phase = procedure->phase();
  const bool trains = procedure->pushes() && phase > Phase::kIdle && phase <= Phase::kDraining;
  return trains ? Activity::kTrains : Activity::kStill;
}

CheckpointContext CoordinatorCore::MakeContext(const JobRecord& job, const std::string& reason,
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
  context.set_final(SessionsAreClosed(job) && job.end_state() == SUCCEEDED);
  return context;
}

// ---- orders ------------------------------------------------------------------

absl::StatusOr<CheckpointOrder> CoordinatorCore::Checkpoint(const std::string& name,
                                                            Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  std::string why;
  if (job->plan.job.checkpoint().off()) {
    why = "its job file says checkpoint { off: true }";
  } else if (const std::string without = KeepNothing(); !without.empty()) {
    why = absl::StrCat("it is kept in memory only: ", without);
  } else if (!job->state().memory_only().empty()) {
    why = absl::StrCat("it went on in memory only: ", job->state().memory_only());
  } else if (job->state().slices_lost()) {
    why = "it has lost parameters";
  } else if (job->stage() == JOB_DELETING) {
    why = "it is being deleted";
  } else if (!HasParameters(*job)) {
    why = "it has not begun to train";
  }
  if (!why.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no checkpoint of job ", job->id(), " (",
                                                      JobState_Name(job->job_state()), "): ", why));
  }
  CheckpointOrder order;
  order.set_job(job->id());
  order.set_generation(job->checkpoints.Request(SessionsAreClosed(*job)));
  AdvanceCheckpoints(moment);
  return order;
}

void CoordinatorCore::CheckpointClientsParameters(JobRecord* job) {
  if (job->state().init() && IsPushedTo(*job) && IsDurable(*job)) {
    job->checkpoints.Request(/*over=*/false, "its initial parameters are a client's");
  }
}

bool CoordinatorCore::AwaitsFirstGeneration(const JobRecord& job) const {
  if (!job.joined() || !job.state().init() || !IsPushedTo(job) ||
      job.checkpoints.state().held() > 0 || job.plan.job.checkpoint().off() ||
      !job.state().memory_only().empty()) {
    return false;
  }
  // A new life of the coordinator does not know at once what shards keep.
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).state == ShardView::State::kNeverSeen) {
      return true;
    }
  }
  return KeepNothing().empty();
}

void CoordinatorCore::CheckpointBeforeLeaving(JobRecord* job) {
  if (IsPushedTo(*job) && job->procedure()->phase() >= Phase::kLeaving &&
      job->leaving_generation == 0 && IsDurable(*job)) {
    job->leaving_generation = job->checkpoints.Request(
        /*over=*/false, job->hands_over() ? "Downpour SGD is over" : "replicas finish");
  }
}

void CoordinatorCore::CheckpointAfterLoss(JobRecord* job, uint32_t worker) {
  if (job->lost_workers.erase(worker) > 0 && IsPushedTo(*job) && HasParameters(*job) &&
      IsDurable(*job)) {
    job->checkpoints.Request(/*over=*/false, absl::StrCat("worker/", worker, " was lost"),
                             /*generations=*/2);
  }
}

void CoordinatorCore::NoteWaitingWorker(uint32_t worker, const HeartbeatRequest& request,
                                        absl::Duration now) {
  JobRecord* const job = JobOfWorker(worker);
  if (job == nullptr) {
    return;
  }
  const bool waits = request.wants_checkpoint() && IsPushedTo(*job) && IsDurable(*job) &&
                     job->ledger()->IsOpen(request.session());
  job->checkpoints.NoteWaiting(worker, waits, now);
  if (waits && request.stands_still()) {
    GiveUpStorage(job, now);
  }
}

void CoordinatorCore::GiveUpStorage(JobRecord* job, absl::Duration now) {
  const std::string error = job->checkpoints.error();
  if (job->plan.job.checkpoint().on_storage_failure() != CONTINUE_IN_MEMORY || error.empty() ||
      !IsDurable(*job)) {
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

void CoordinatorCore::OrderCheckpoint(JobRecord* job, Activity activity, Moment moment,
                                      const MinimizerStateFunction& state) {
  // To a shard that is silent the order would come late, and the others' parts be stale.
  if (!IsDurable(*job) || !HasParameters(*job) || AwaitsShard(*job)) {
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
    job->checkpoints.Order(std::move(context), SessionsAreClosed(*job), moment.now);
  }
  if (to_be_tested) {
    job->procedure()->UseTestGeneration(job->checkpoints.state().ordered(), moment.now);
  }
}

void CoordinatorCore::AdvanceCheckpoints(Moment moment) {
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() < JOB_ACTIVE || job->stage() == JOB_DELETING) {
      continue;
    }
    if (WaitsForLastCheckpoint(*job) || WaitsForLeaving(*job) || BatchWaitsForDisk(*job) ||
        WaitsForTestGeneration(*job) || AwaitsFirstGeneration(*job)) {
      GiveUpStorage(job.get(), moment.now);
    }
    OrderCheckpoint(job.get(), ActivityOf(*job), moment);
    look_ |= job->stage() < JOB_ENDED && job->checkpoints.WantsPoll(moment.now);
    TakeCheckpointEvents(job.get(), moment.now);
  }
  if (shards_.all_up()) {
    for (JobRecord* const job : active_) {
      TellOfMemoryOnly(job, moment.now);
    }
  }
}

void CoordinatorCore::TellOfMemoryOnly(JobRecord* job, absl::Duration now) {
  if (std::exchange(job->told_memory_only, true)) {
    return;
  }
  const std::string without = KeepNothing();
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

void CoordinatorCore::TakeCheckpointEvents(JobRecord* job, absl::Duration now) {
  for (const CheckpointSchedule::Event& event : job->checkpoints.TakeEvents()) {
    Log(absl::StrCat("job ", job->id(), " ", event.kind, ": ",
                     event.task.empty() ? "" : event.task + " ", event.text));
    job->AddEvent(now, event.kind, event.task, event.text);
  }
}

void CoordinatorCore::TakeCheckpointCommands(absl::Duration now,
                                             std::vector<ShardCommand>* commands) {
  for (const auto& job : jobs_.jobs()) {
    if (!HasParameters(*job)) {
      continue;
    }
    for (const uint32_t shard : job->checkpoints.Due(job->stage() == JOB_ENDED, now)) {
      ShardCommand command;
      command.kind = ShardCommand::Kind::kCheckpoint;
      command.shard = shard;
      command.job = job->id();
      command.job_term = job->state().term();
      CheckpointRequest& request = command.checkpoint;
      request.set_job(job->id());
      request.set_job_term(job->state().term());
      request.set_term(term());
      request.set_generation(job->checkpoints.state().ordered());
      *request.mutable_context() = job->checkpoints.state().context();
      *request.mutable_context()->mutable_job() = job->plan.job;
      request.mutable_context()->mutable_job()->MergeFrom(job->checkpoints.state().context().job());
      if (job->checkpoints.state().held() == 0) {
        *request.mutable_known_jobs() = Known(jobs_);
      }
      commands->push_back(std::move(command));
    }
  }
}

void CoordinatorCore::RecordCheckpoints(uint32_t shard, absl::Duration now) {
  for (const auto& job : jobs_.jobs()) {
    if (!job->state().slices_ready() || job->state().slices_lost() ||
        job->stage() == JOB_DELETING) {
      continue;
    }
    const ShardJobStatus* const status = shards_.job(shard, job->id(), job->state().term());
    if (status != nullptr) {
      job->checkpoints.NoteShard(shard, *status, now);
      if (job->procedure() != nullptr) {
        job->procedure()->NoteHeldGeneration(job->checkpoints.state().held());
      }
      TakeCheckpointEvents(job.get(), now);  // before what follows from it
    }
  }
}

// ---- the end -----------------------------------------------------------------

bool CoordinatorCore::WaitsForLastCheckpoint(const JobRecord& job) const {
  return job.stage() == JOB_ENDING && SessionsAreClosed(job) && HasParameters(job) &&
         job.started() && IsDurable(job) && !job.checkpoints.last_is_held();
}

bool CoordinatorCore::WaitsForTestGeneration(const JobRecord& job) const {
  return job.stage() == JOB_ACTIVE && job.procedure()->phase() == Phase::kFinalEvaluation &&
         BestOf(job) != NO_TEST_METRIC && job.checkpoints.under_way();
}

TestMetric CoordinatorCore::BestOf(const JobRecord& job) const {
  return IsDurable(job) ? job.plan.job.checkpoint().keep_best() : NO_TEST_METRIC;
}

bool CoordinatorCore::WaitsForLeaving(const JobRecord& job) const {
  return IsPushedTo(job) && job.procedure()->phase() == Phase::kDone &&
         (job.hands_over() || !job.ledger()->empty()) &&
         job.leaving_generation > job.checkpoints.state().held() && IsDurable(job);
}

bool CoordinatorCore::LastCheckpointIsDone(JobRecord* job, absl::Duration now) {
  if (!WaitsForLastCheckpoint(*job)) {
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
          ? absl::StrCat(": no answer of ", MissingShards(now))
          : absl::StrFormat(" within %.0f s", absl::ToDoubleSeconds(kLastCheckpointPatience)),
      checkpoints.state().held() > 0
          ? absl::StrCat("; generation ", checkpoints.state().held(), " is the newest")
          : "");
  job->AddEvent(now, "checkpoint_failed", "", text);
  Log(absl::StrCat("job ", job->id(), ": ", text));
  return true;
}

// ---- what people see ---------------------------------------------------------

std::string CoordinatorCore::CheckpointReason(const JobRecord& job, const std::string& what,
                                              absl::Duration now) const {
  if (const std::string shards = ShardReason(job, now); !shards.empty()) {
    return absl::StrCat("waits for ", what, ", and for ", shards);
  }
  const std::string& error = job.checkpoints.error();
  return absl::StrCat(
      "waits for ", what,
      error.empty() ? "" : absl::StrCat(": ", error, "; free the disk, or cancel ", "the job"));
}

void CoordinatorCore::DescribeDurability(const JobRecord& job, Moment moment,
                                         JobDescription::Durability* durability) const {
  const CheckpointState& state = job.checkpoints.state();
  durability->set_promise(IsDurable(job) ? "exactly_once" : "memory_only");
  *durability->mutable_lost() = job.state().lost();
  durability->set_generation(state.held());
  if (state.held() > 0) {
    // People's time: it passes while no coordinator is there, too. Their clocks go back at
    // times.
    const int64_t age_ms = std::max<int64_t>(moment.unix_ms - state.held_ordered_ms(), 0);
    durability->set_age_s(static_cast<double>(age_ms) / 1000);
  }
  durability->set_ordered(state.ordered());
  if (job.state().has_best()) {
    *durability->mutable_best() = job.state().best();
  }
  const std::string& given_up = job.state().memory_only();
  durability->set_error(given_up.empty() ? job.checkpoints.error() : given_up);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (const std::string& folder = shards_.shard(shard).status.state_dir(); !folder.empty()) {
      durability->add_state_dir(absl::StrCat(Shard(shard), ": ", folder));
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
