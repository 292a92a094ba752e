#include "coordinator/downpour/downpour_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/optimizer/schedule.h"
#include "coordinator/job/plateau.h"
#include "coordinator/state/sorted_list.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// Blocks given to a replica that holds none: one to train on and one to
// prefetch. After that each call brings one more.
constexpr int kFirstBlocks = 2;

// How long a replica with nothing to do waits before it asks again: short
// against a block, long against a call.
constexpr uint32_t kWaitMs = 50;

double PlateauFactor(const PlateauSchedule& plateau, uint32_t reductions) {
  Schedule schedule;
  *schedule.mutable_plateau() = plateau;
  return ScheduleFactor(schedule, 0, reductions);
}

DataPlan PlanOf(const DownpourOptions& options) {
  return DataPlan::Make({.examples = options.examples,
                         .block_examples = options.block_examples,
                         .batch_size = options.batch_size,
                         .stop = options.stop,
                         .resumed = options.resumed});
}

// Of the epochs that are begun.
std::vector<BlockRef> BlocksDone(const DownpourState& state) {
  std::vector<BlockRef> done;
  for (const EpochCursor& cursor : state.epoch()) {
    for (const EpochCursor::Run& run : cursor.done()) {
      for (uint32_t block = run.first(); block < run.end(); ++block) {
        done.push_back({cursor.epoch(), block});
      }
    }
  }
  return done;
}

// With their replicas.
std::vector<std::pair<BlockRef, uint32_t>> BlocksHeld(const DownpourState& state) {
  std::vector<std::pair<BlockRef, uint32_t>> held;
  for (const DurableReplica& replica : state.procedure().replica()) {
    for (const BlockId& block : replica.held()) {
      held.push_back({{block.epoch(), block.block()}, replica.worker()});
    }
  }
  return held;
}

// It is given nothing to train on.
void RestIfIdle(uint32_t worker, const BlockDispenser& blocks, std::optional<PushClocks>* clocks) {
  if (clocks->has_value() && blocks.held(worker) == 0) {
    (*clocks)->Rest(worker);
  }
}

}  // namespace

DownpourJob::DownpourJob(const DownpourOptions& options, const JobWriter& writer)
    : ProcedureBase(writer, DOWNPOUR,
                    {.has_test = options.has_test,
                     .every = options.evaluate_every_epochs,
                     .ends_job = !options.hands_over,
                     .best = options.keep_best}),
      options_(options),
      plan_(PlanOf(options)),
      blocks_({.examples = options.examples,
               .block_examples = options.block_examples,
               .total_blocks = plan_.blocks,
               .last_block_examples = plan_.last_block_examples,
               .max_epochs_ahead = options.max_epochs_ahead,
               .first_epoch = state().epochs_done(),
               .done = BlocksDone(state()),
               .held = BlocksHeld(state())}),
      streams_(writer) {
  CHECK(options.batch_size > 0);
  if (options.staleness_bound) {
    clocks_.emplace();
  }
  blocks_.SetReplicas(replicas_.live());
  if (state().stopped()) {
    blocks_.Stop();
  }
}

void DownpourJob::AddReplica(uint32_t worker, absl::Duration now) {
  replicas_.Add(worker);
  RestIfIdle(worker, blocks_, &clocks_);
  blocks_.SetReplicas(replicas_.live());
  if (phase() != Phase::kIdle) {
    return;
  }
  test_.PassOver(epoch());
  if (options_.warmstart.steps() > 0 || options_.warmstart.seconds() > 0) {
    procedure_.Started(ProcedureState::WARMSTART, now);
    SetWarmReplica(worker);
    AddEvent("warmstart", "", absl::StrCat(WorkerName(worker), " trains alone"));
  } else {
    procedure_.Started(ProcedureState::RUNNING, now);
    AddEvent("running", "", absl::StrCat(WorkerName(worker), " trains"));
  }
}

uint64_t DownpourJob::RemoveReplica(uint32_t worker, absl::Duration now) {
  if (!replicas_.Remove(worker)) {
    return 0;
  }
  const uint64_t released = blocks_.Release(worker);
  if (released > 0) {
    job_.Make(
        [&](StateUpdate* update) { update->mutable_blocks_released()->set_blocks(released); });
  }
  blocks_.SetReplicas(replicas_.live());
  test_.Remove(worker);
  ready_epochs_.erase(worker);
  if (clocks_) {
    clocks_->Remove(worker);
  }
  if (IsWarmReplica(worker)) {
    SetWarmReplica(std::nullopt);
  }
  Advance(now);
  return released;
}

absl::Status DownpourJob::TakeReport(uint32_t worker, const NextWorkRequest& request,
                                     absl::Duration) {
  if (request.end_job() && options_.hands_over) {
    return absl::FailedPreconditionError(
        absl::StrCat(WorkerName(worker),
                     " ends the training, and a batch (sandblaster) goes on from there: only the "
                     "settings end a part of such a job; cancel it to stop it"));
  }
  RETURN_IF_ERROR(Streams::Check(request.stream()));
  for (const BlockId& done : request.done()) {
    BlockIsDone(worker, BlockRef{done.epoch(), done.block()});
  }
  NoteRead(request);
  if (options_.unnumbered && request.no_more_samples() && !IsOut(worker)) {
    job_.Make([&](StateUpdate* update) { update->mutable_samples_over()->set_worker(worker); });
  }
  if (request.end_job()) {
    EndBy(worker);
  }
  const NextWorkReply* const told = replicas_.last_reply(worker);
  if (options_.hands_over && phase() >= Phase::kLeaving &&
      (ready_epochs_.contains(worker) || (told != nullptr && told->has_flush()))) {
    ready_epochs_[worker].assign(request.ready_epoch().begin(), request.ready_epoch().end());
  }
  return absl::OkStatus();
}

void DownpourJob::BlockIsDone(uint32_t worker, BlockRef block) {
  if (!blocks_.Done(worker, block)) {
    return;  // a repeated or late report
  }
  job_.Make([&](StateUpdate* update) {
    BlockDone* const done = update->mutable_block_done();
    done->mutable_block()->set_epoch(block.epoch);
    done->mutable_block()->set_block(block.block);
    done->set_worker(worker);
    done->set_examples(blocks_.examples_of(block));
    done->set_epoch_blocks(static_cast<uint32_t>(blocks_.blocks_per_epoch()));
  });
}

void DownpourJob::NoteRead(const NextWorkRequest& request) {
  const auto left_out = streams_.NoteRead(request.session(), request.stream(),
                                          [this](uint32_t each) { return IsLive(each); });
  for (const std::string& stream : left_out) {
    AddEvent("stream_not_kept", WorkerName(request.session().worker()),
             absl::StrCat("stream ", stream,
                          ": its position stays where it is, because another program reads it, or "
                          "the states of all streams have more than ",
                          Streams::kMostTotalBytes, " bytes"));
  }
}

absl::StatusOr<TakeStreamReply> DownpourJob::TakeStream(uint32_t worker,
                                                        const std::string& stream) {
  if (!options_.unnumbered) {
    return JobProcedure::TakeStream(worker, stream);
  }
  return streams_.Take(worker, stream, [this](uint32_t each) { return IsLive(each); });
}

void DownpourJob::LeaveStreams(const SessionKey& session, std::optional<uint64_t> pushes) {
  for (const Streams::ReadAgain& again : streams_.Leave(session, pushes)) {
    AddEvent("stream_read_again", WorkerName(session.worker()),
             absl::StrCat("stream ", again.stream, ": shards have ", again.pushes,
                          " pushes of what was read beyond its position, and it is read again"));
  }
}

absl::StatusOr<ClockReply> DownpourJob::TellClock(uint32_t worker, const ClockRequest& told) {
  if (!clocks_) {
    return JobProcedure::TellClock(worker, told);
  }
  std::set<uint32_t> training;
  for (const uint32_t each : replicas_.live()) {
    if (blocks_.held(each) > 0) {
      training.insert(each);
    }
  }
  return clocks_->Tell(worker, told, training);
}

bool DownpourJob::IsOut(uint32_t worker) const {
  const DurableReplica* const replica = FindWorker(state().procedure().replica(), worker);
  return replica != nullptr && replica->no_more_samples();
}

bool DownpourJob::AllAreOut() const {
  return options_.unnumbered && !replicas_.live().empty() &&
         std::ranges::all_of(replicas_.live(), [this](uint32_t worker) {
           return IsOut(worker) && blocks_.held(worker) == 0;
         });
}

void DownpourJob::NoteSteps(uint64_t steps) {
  const uint64_t all = options_.resumed.steps() + steps;
  if (all > state().steps()) {
    job_.Make([&](StateUpdate* update) { update->mutable_steps_counted()->set_steps(all); });
  }
}

void DownpourJob::SetWarmReplica(std::optional<uint32_t> worker) {
  job_.Make([&](StateUpdate* update) {
    WarmReplicaChanged* const change = update->mutable_warm_replica();
    if (worker) {
      change->set_worker(*worker);
    }
  });
}

uint64_t DownpourJob::work_done_by(uint32_t worker) const {
  const WorkerBlocks* const done = FindWorker(state().done_by(), worker);
  return done == nullptr ? 0 : done->blocks();
}

void DownpourJob::Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  if (phase() >= Phase::kLeaving) {
    const NextWorkReply* const told = replicas_.last_reply(worker);
    if (options_.hands_over && told != nullptr && told->has_flush()) {
      reply->mutable_wait()->set_retry_ms(kWaitMs);
    } else if (options_.hands_over) {
      // What was pushed is being written: a shard that dies now must get it again.
      reply->mutable_flush();
    } else {
      reply->mutable_finish();
    }
    return;
  }
  if (const auto id = test_.Assign(worker, replicas_.live())) {
    test_.GivenOut(AsOf(now));
    reply->mutable_evaluate()->set_evaluation(*id);
    reply->mutable_evaluate()->set_vector(test_.vector());
    RestIfIdle(worker, blocks_, &clocks_);
    return;
  }
  const bool may_train =
      phase() == Phase::kRunning || (phase() == Phase::kWarmstart && IsWarmReplica(worker));
  if (may_train && !IsOut(worker) && Train(worker, reply)) {
    return;
  }
  RestIfIdle(worker, blocks_, &clocks_);
  // Its acknowledgements are what everybody waits for: push the tail.
  const bool last_blocks = (blocks_.exhausted() || IsOut(worker)) && blocks_.held(worker) > 0;
  if (last_blocks || blocks_.HoldsUp(worker)) {
    reply->mutable_flush();
    return;
  }
  reply->mutable_wait()->set_retry_ms(kWaitMs);
}

bool DownpourJob::Train(uint32_t worker, NextWorkReply* reply) {
  const int wanted = blocks_.held(worker) == 0 ? kFirstBlocks : 1;
  for (int i = 0; i < wanted; ++i) {
    const std::optional<BlockRef> block = blocks_.Lease(worker);
    if (!block) {
      break;
    }
    BlockId* id = reply->mutable_train()->add_block();
    id->set_epoch(block->epoch);
    id->set_block(block->block);
    if (!blocks_.whole(*block)) {
      id->set_examples(static_cast<uint32_t>(blocks_.examples_of(*block)));
    }
  }
  return reply->has_train();
}

absl::Status DownpourJob::ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                           absl::Duration now) {
  const uint32_t reductions = rate_reductions();
  ASSIGN_OR_RETURN(const TestResult* const record, test_.Report(worker, request));
  if (record == nullptr) {
    return absl::OkStatus();
  }
  AddEvent("evaluation", WorkerName(worker),
           absl::StrFormat("epoch %.2f: %s", record->epoch, record->Text()));
  if (running() && options_.stop.target_accuracy() > 0 &&
      record->accuracy >= options_.stop.target_accuracy()) {
    BeginDraining("target accuracy reached");
  }
  FollowTestResults(reductions);
  Advance(now);
  return absl::OkStatus();
}

uint32_t DownpourJob::rate_reductions() const {
  return options_.plateau ? options_.plateau->reductions() +
                                CountPlateaus(Plateau::From(*options_.plateau), test_.records())
                          : 0;
}

void DownpourJob::FollowTestResults(uint32_t reductions_before) {
  if (!running()) {
    return;
  }
  if (options_.plateau && rate_reductions() > reductions_before) {
    AddEvent("rate_reduced", "",
             absl::StrFormat("the rate is times %.6g from now on: %s",
                             PlateauFactor(*options_.plateau, rate_reductions()),
                             Plateau::From(*options_.plateau).Text()));
  }
  if (options_.stop.has_early()) {
    const Plateau early = Plateau::From(options_.stop.early());
    if (CountPlateaus(early, test_.records()) > 0) {
      BeginDraining(absl::StrCat(kStoppedEarly, early.Text()));
    }
  }
}

void DownpourJob::Describe(JobDescription* description) const {
  description->set_mode("downpour");
  JobDescription::Data* const data = description->mutable_data();
  data->set_blocks(options_.unnumbered ? 0 : blocks_.blocks_per_epoch());
  data->set_blocks_done(state().blocks_done());
  data->set_blocks_released(state().blocks_released());
  streams_.Describe(data);
  for (JobDescription::Worker& worker : *description->mutable_worker()) {
    if (const auto clock = clocks_ ? clocks_->of(worker.task()) : std::nullopt) {
      worker.set_clock(*clock);
    }
  }
  if (options_.plateau) {
    description->set_rate_factor(PlateauFactor(*options_.plateau, rate_reductions()));
  }
}

void DownpourJob::StopBlocks(std::optional<uint32_t> worker) {
  blocks_.Stop();
  job_.Make([&](StateUpdate* update) {
    BlocksStopped* const stopped = update->mutable_blocks_stopped();
    if (worker) {
      stopped->set_worker(*worker);
    }
  });
}

void DownpourJob::EndBy(uint32_t worker) {
  if (running()) {
    const std::string epochs = options_.unnumbered ? "" : absl::StrFormat("%.2f epochs, ", epoch());
    BeginDraining(
        absl::StrCat(kEndedBy, WorkerName(worker), " after ", epochs, state().steps(), " steps"));
  }
  // Also of what was ending already: nobody waits for its blocks.
  if (blocks_.held(worker) > 0) {
    StopBlocks(worker);
    blocks_.Release(worker);
  }
}

void DownpourJob::BeginDraining(const std::string& why) {
  StopBlocks(std::nullopt);
  test_.DropDue();
  procedure_.ChangePhase(ProcedureState::DRAINING);
  AddEvent("finishing", "", why);
}

void DownpourJob::Advance(absl::Duration now) {
  if (running()) {
    const double seconds = absl::ToDoubleSeconds(now - *started());
    if (phase() == Phase::kWarmstart) {
      const Warmstart& warmstart = options_.warmstart;
      if ((warmstart.steps() > 0 && state().steps() >= warmstart.steps()) ||
          (warmstart.seconds() > 0 && seconds >= warmstart.seconds()) ||
          (state().has_warm_replica() && IsOut(state().warm_replica()))) {
        procedure_.ChangePhase(ProcedureState::RUNNING);
        AddEvent(
            "full", "",
            absl::StrFormat("all replicas train after %d steps, %.1f s", state().steps(), seconds));
      } else if (!state().has_warm_replica() && !replicas_.live().empty()) {
        SetWarmReplica(*replicas_.live().begin());
        AddEvent("warmstart", "",
                 absl::StrCat(WorkerName(state().warm_replica()), " takes over, alone"));
      }
    }
    if (options_.stop.seconds() > 0 && seconds >= options_.stop.seconds()) {
      BeginDraining("time is over");
    } else if (AllAreOut()) {
      BeginDraining("the programs have no more samples");
    } else if (blocks_.exhausted()) {
      // A block that is released now is leased again: draining does not stop it.
      if (blocks_.all_done()) {
        BeginDraining("all data is done");
      }
    } else {
      test_.NoteProgress(epoch());
    }
  }
  if (phase() == Phase::kDraining && blocks_.all_done()) {
    procedure_.Trained(ProcedureState::FINAL_EVALUATION, now);
    test_.RequestFinal();
  }
  AdvanceToEnd(/*stay=*/options_.hands_over, now);
}

bool DownpourJob::brought_back() const {
  return !options_.hands_over || std::ranges::all_of(replicas_.live(), [this](uint32_t worker) {
    const auto ready = ready_epochs_.find(worker);
    return ready != ready_epochs_.end() &&
           std::ranges::equal(ready->second, job_.job().shard_epoch());
  });
}

bool DownpourJob::Works(uint32_t worker) const {
  const NextWorkReply* const told = replicas_.last_reply(worker);
  return told != nullptr && (told->has_train() || told->has_flush());
}

double DownpourJob::epoch() const {
  if (options_.unnumbered) {
    return 0.0;
  }
  return static_cast<double>(examples_done()) / static_cast<double>(options_.examples);
}

std::optional<uint64_t> DownpourJob::planned_examples() const {
  return plan_.blocks == DataPlan::kNoLimit ? std::nullopt : std::make_optional(plan_.examples);
}

double DownpourJob::planned_epochs() const {
  if (options_.stop.epochs() > 0) {
    return options_.stop.epochs();
  }
  const std::optional<uint64_t> examples = planned_examples();
  return examples && !options_.unnumbered
             ? static_cast<double>(*examples) / static_cast<double>(options_.examples)
             : 0.0;
}

double DownpourJob::fraction(absl::Duration now) const { return FractionOf(options_.stop, now); }

void BeginDownpour(const DownpourOptions& options, JobRecord* job) {
  job->Make([&](StateUpdate* update) {
    update->set_procedure(DOWNPOUR);
    ProcedureBegun* const begun = update->mutable_procedure_begun();
    if (job->state().has_resume()) {
      *begun->mutable_resumed() = options.resumed;
    }
  });
  ContinueDownpour(options, job);
}

void ContinueDownpour(const DownpourOptions& options, JobRecord* job) {
  job->AddProcedure(std::make_unique<DownpourJob>(options, job->writer()));
}

}  // namespace monsoon
