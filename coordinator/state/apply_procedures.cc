#include <algorithm>

#include "common/base/status.h"
#include "coordinator/state/apply.h"
#include "coordinator/state/coordinator_state.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon::internal {
namespace {

// That of the procedure, if it has begun.
const ProcedureState* FindProcedure(Procedure procedure, const DurableJob& job) {
  switch (procedure) {
    case SANDBLASTER:
      return job.has_sandblaster() ? &job.sandblaster().procedure() : nullptr;
    case SYNCHRONOUS:
      return job.has_synchronous() ? &job.synchronous().procedure() : nullptr;
    default:
      return job.has_downpour() ? &job.downpour().procedure() : nullptr;
  }
}

absl::Status Begin(const StateUpdate& update, DurableJob* job) {
  if (FindProcedure(update.procedure(), *job) != nullptr) {
    return absl::FailedPreconditionError("it has begun already");
  }
  if (update.procedure() == SANDBLASTER) {
    *job->mutable_sandblaster()->mutable_plan() = update.procedure_begun().plan();
    job->mutable_sandblaster()->mutable_procedure();
  } else if (update.procedure() == SYNCHRONOUS) {
    SynchronousState* const synchronous = job->mutable_synchronous();
    synchronous->mutable_procedure();
    *synchronous->mutable_resumed() = update.procedure_begun().position();
    *synchronous->mutable_done() = update.procedure_begun().position();
  } else {
    DownpourState* const downpour = job->mutable_downpour();
    downpour->mutable_procedure();
    const DownpourProgress& resumed = update.procedure_begun().resumed();
    downpour->set_steps(resumed.steps());
    downpour->set_epochs_done(resumed.epochs_done());
    *downpour->mutable_epoch() = resumed.epoch();
    downpour->set_blocks_done(resumed.blocks_done());
    downpour->set_examples_done(resumed.examples_done());
    for (const StreamPosition& position : resumed.stream()) {
      *downpour->add_stream()->mutable_position() = position;
    }
  }
  return absl::OkStatus();
}

absl::Status ChangePhase(const PhaseChanged& change, ProcedureState* procedure) {
  if (change.phase() < procedure->phase()) {
    return absl::FailedPreconditionError("a phase never goes back");
  }
  procedure->set_phase(change.phase());
  if (change.has_started_ns()) {
    procedure->set_started_ns(change.started_ns());
  }
  if (change.has_trained_ns()) {
    procedure->set_trained_ns(change.trained_ns());
  }
  if (change.has_leaving_ns()) {
    procedure->set_leaving_ns(change.leaving_ns());
  }
  return absl::OkStatus();
}

absl::Status TellReplica(const DurableReplica& told, ProcedureState* procedure) {
  if (FindWorker(procedure->replica(), told.worker()) == nullptr) {
    return absl::FailedPreconditionError("the worker is no replica");
  }
  DurableReplica* const replica = TakeWorker(procedure->mutable_replica(), told.worker());
  *replica->mutable_last_reply() = told.last_reply();
  replica->mutable_held()->MergeFrom(told.last_reply().train().block());
  return absl::OkStatus();
}

// `worker`, if it is a replica, holds the block no more.
void TakeBack(const BlockId& block, uint32_t worker, ProcedureState* procedure) {
  if (FindWorker(procedure->replica(), worker) == nullptr) {
    return;
  }
  auto* const held = TakeWorker(procedure->mutable_replica(), worker)->mutable_held();
  const auto same = [&block](const BlockId& each) {
    return each.epoch() == block.epoch() && each.block() == block.block();
  };
  if (const auto found = std::ranges::find_if(*held, same); found != held->end()) {
    held->erase(found);
  }
}

absl::Status ApplyToProcedure(const StateUpdate& update, ProcedureState* procedure) {
  switch (update.change_case()) {
    case StateUpdate::kPhaseChanged:
      return ChangePhase(update.phase_changed(), procedure);
    case StateUpdate::kReplicaAdded: {
      const uint32_t worker = update.replica_added().worker();
      DurableReplica* const replica = TakeWorker(procedure->mutable_replica(), worker);
      replica->clear_last_reply();
      replica->clear_held();
      replica->clear_no_more_samples();
      return absl::OkStatus();
    }
    case StateUpdate::kReplicaRemoved:
      return RemoveWorker(procedure->mutable_replica(), update.replica_removed().worker())
                 ? absl::OkStatus()
                 : absl::FailedPreconditionError("the worker is no replica");
    case StateUpdate::kReplicaTold:
      return TellReplica(update.replica_told(), procedure);
    case StateUpdate::kTestSchedule:
      *procedure->mutable_test()->mutable_schedule() = update.test_schedule();
      return absl::OkStatus();
    case StateUpdate::kTestGivenOut:
      procedure->mutable_test()->set_given_out_id(update.test_given_out().id());
      *procedure->mutable_test()->mutable_given_out() = update.test_given_out().when();
      return absl::OkStatus();
    case StateUpdate::kTestResult:
      *procedure->mutable_test()->add_result() = update.test_result();
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("not of a procedure");
  }
}

// Adds `block` to the runs of its epoch; false when it is there.
bool AddToRuns(uint32_t block, EpochCursor* epoch) {
  auto* const runs = epoch->mutable_done();
  const auto next = std::ranges::upper_bound(*runs, block, {}, &EpochCursor::Run::first);
  const auto index = static_cast<int>(next - runs->begin());
  EpochCursor::Run* const before = index > 0 ? runs->Mutable(index - 1) : nullptr;
  EpochCursor::Run* const after = index < runs->size() ? runs->Mutable(index) : nullptr;
  if (before != nullptr && block < before->end()) {
    return false;
  }
  const bool extends = before != nullptr && before->end() == block;
  const bool precedes = after != nullptr && after->first() == block + 1;
  if (extends && precedes) {
    before->set_end(after->end());
    runs->DeleteSubrange(index, 1);
  } else if (extends) {
    before->set_end(block + 1);
  } else if (precedes) {
    after->set_first(block);
  } else {
    EpochCursor::Run* const run = InsertAt(runs, index);
    run->set_first(block);
    run->set_end(block + 1);
  }
  return true;
}

// The cursor of `epoch`, added at its place if there was none.
EpochCursor* TakeEpoch(uint32_t epoch, uint32_t blocks, DownpourState* downpour) {
  auto* const list = downpour->mutable_epoch();
  const auto place = std::ranges::lower_bound(*list, epoch, {}, &EpochCursor::epoch);
  const auto index = static_cast<int>(place - list->begin());
  if (place == list->end() || place->epoch() != epoch) {
    EpochCursor* const cursor = InsertAt(list, index);
    cursor->set_epoch(epoch);
    cursor->set_blocks(blocks);
  }
  return list->Mutable(index);
}

bool Whole(const EpochCursor& epoch) {
  return epoch.done_size() == 1 && epoch.done(0).first() == 0 &&
         epoch.done(0).end() == epoch.blocks();
}

absl::Status FinishBlock(const BlockDone& done, DownpourState* downpour) {
  const uint32_t epoch = done.block().epoch();
  if (epoch < downpour->epochs_done() || done.block().block() >= done.epoch_blocks() ||
      !AddToRuns(done.block().block(), TakeEpoch(epoch, done.epoch_blocks(), downpour))) {
    return absl::FailedPreconditionError("the block is done already, or there is no such block");
  }
  while (downpour->epoch_size() > 0 && downpour->epoch(0).epoch() == downpour->epochs_done() &&
         Whole(downpour->epoch(0))) {
    downpour->mutable_epoch()->DeleteSubrange(0, 1);
    downpour->set_epochs_done(downpour->epochs_done() + 1);
  }
  TakeBack(done.block(), done.worker(), downpour->mutable_procedure());
  downpour->set_blocks_done(downpour->blocks_done() + 1);
  downpour->set_examples_done(downpour->examples_done() + done.examples());
  WorkerBlocks* const by = TakeWorker(downpour->mutable_done_by(), done.worker());
  by->set_blocks(by->blocks() + 1);
  return absl::OkStatus();
}

absl::StatusOr<DurableReplica*> ReplicaOf(uint32_t worker, DownpourState* downpour) {
  auto* const replicas = downpour->mutable_procedure()->mutable_replica();
  if (FindWorker(*replicas, worker) == nullptr) {
    return absl::FailedPreconditionError("the worker is no replica");
  }
  return TakeWorker(replicas, worker);
}

absl::Status StopBlocks(const BlocksStopped& stopped, DownpourState* downpour) {
  if (stopped.has_worker()) {
    ASSIGN_OR_RETURN(DurableReplica* const replica, ReplicaOf(stopped.worker(), downpour));
    replica->clear_held();
  }
  downpour->set_stopped(true);
  return absl::OkStatus();
}

absl::Status ApplyToDownpour(const StateUpdate& update, DownpourState* downpour) {
  switch (update.change_case()) {
    case StateUpdate::kWarmReplica:
      downpour->clear_warm_replica();
      if (update.warm_replica().has_worker()) {
        downpour->set_warm_replica(update.warm_replica().worker());
      }
      return absl::OkStatus();
    case StateUpdate::kStepsCounted:
      if (update.steps_counted().steps() < downpour->steps()) {
        return absl::FailedPreconditionError("steps never go back");
      }
      downpour->set_steps(update.steps_counted().steps());
      return absl::OkStatus();
    case StateUpdate::kBlockDone:
      return FinishBlock(update.block_done(), downpour);
    case StateUpdate::kBlocksReleased:
      downpour->set_blocks_released(downpour->blocks_released() +
                                    update.blocks_released().blocks());
      return absl::OkStatus();
    case StateUpdate::kBlocksStopped:
      return StopBlocks(update.blocks_stopped(), downpour);
    case StateUpdate::kSamplesOver: {
      ASSIGN_OR_RETURN(DurableReplica* const replica,
                       ReplicaOf(update.samples_over().worker(), downpour));
      replica->set_no_more_samples(true);
      return absl::OkStatus();
    }
    case StateUpdate::kStreamTaken:
    case StateUpdate::kStreamRead:
    case StateUpdate::kStreamsLeft:
      return ApplyToStreams(update, downpour);
    default:
      return absl::FailedPreconditionError("not of Downpour SGD");
  }
}

absl::Status SeeBackend(const BackendSeen& seen, SandblasterState* sandblaster) {
  auto* const list = sandblaster->mutable_backend();
  const auto place =
      std::ranges::lower_bound(*list, seen.fingerprint(), {}, &BackendSeen::fingerprint);
  if (place != list->end() && place->fingerprint() == seen.fingerprint()) {
    return absl::FailedPreconditionError("the backend was seen before");
  }
  *InsertAt(list, static_cast<int>(place - list->begin())) = seen;
  return absl::OkStatus();
}

absl::Status ApplyToSandblaster(const StateUpdate& update, SandblasterState* sandblaster) {
  switch (update.change_case()) {
    case StateUpdate::kBackendSeen:
      return SeeBackend(update.backend_seen(), sandblaster);
    case StateUpdate::kBatchFigures:
      *sandblaster->mutable_figures() = update.batch_figures();
      return absl::OkStatus();
    case StateUpdate::kIteration:
      if (sandblaster->iteration_size() == kMaxIterations) {
        sandblaster->mutable_iteration()->DeleteSubrange(0, 1);
      }
      *sandblaster->add_iteration() = update.iteration();
      return absl::OkStatus();
    case StateUpdate::kBatchEnded:
      sandblaster->set_end_reason(update.batch_ended().reason());
      sandblaster->set_end_detail(update.batch_ended().detail());
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("not of Sandblaster");
  }
}

}  // namespace

absl::Status ApplyToProcedures(const StateUpdate& update, DurableJob* job) {
  if (update.has_procedure_begun()) {
    return Begin(update, job);
  }
  if (FindProcedure(update.procedure(), *job) == nullptr) {
    return absl::FailedPreconditionError("the procedure has not begun");
  }
  const bool sandblaster = update.procedure() == SANDBLASTER;
  const bool synchronous = update.procedure() == SYNCHRONOUS;
  switch (update.change_case()) {
    case StateUpdate::kPhaseChanged:
    case StateUpdate::kReplicaAdded:
    case StateUpdate::kReplicaRemoved:
    case StateUpdate::kReplicaTold:
    case StateUpdate::kTestSchedule:
    case StateUpdate::kTestGivenOut:
    case StateUpdate::kTestResult:
      return ApplyToProcedure(update, sandblaster ? job->mutable_sandblaster()->mutable_procedure()
                                      : synchronous
                                          ? job->mutable_synchronous()->mutable_procedure()
                                          : job->mutable_downpour()->mutable_procedure());
    default:
      return sandblaster   ? ApplyToSandblaster(update, job->mutable_sandblaster())
             : synchronous ? ApplyToSynchronous(update, job->mutable_synchronous())
                           : ApplyToDownpour(update, job->mutable_downpour());
  }
}

}  // namespace monsoon::internal
