#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/apply.h"

namespace monsoon::internal {
namespace {

absl::Status Order(const CheckpointOrdered& order, CheckpointState* state) {
  if (order.generation() <= state->last() || state->ordered() != 0) {
    return absl::FailedPreconditionError(
        state->ordered() != 0 ? absl::StrCat("generation ", state->ordered(), " is under way")
                              : absl::StrCat("generation ", state->last(), " was given out"));
  }
  state->set_last(order.generation());
  state->set_ordered(order.generation());
  state->set_ordered_ns(order.at_ns());
  *state->mutable_context() = order.context();
  state->set_at_end(order.at_end());
  return absl::OkStatus();
}

absl::Status Hold(const CheckpointHeld& held, CheckpointState* state) {
  if (held.generation() == 0 || held.generation() != state->ordered()) {
    return absl::FailedPreconditionError("not the generation that is under way");
  }
  state->set_ordered(0);
  state->set_held_before(state->fallen_back_to() > 0 ? state->fallen_back_to() : state->held());
  state->set_fallen_back_to(0);
  state->set_held(held.generation());
  state->set_held_ordered_ns(state->ordered_ns());
  state->set_held_ns(held.at_ns());
  state->set_held_ordered_ms(state->context().ordered_ms());
  auto* const left = state->mutable_left();
  left->erase(std::remove_if(left->begin(), left->end(),
                             [state](const LeftSession& session) {
                               return session.generation() <= state->held_before();
                             }),
              left->end());
  return absl::OkStatus();
}

absl::Status Request(const CheckpointRequested& request, CheckpointState* state) {
  if (request.generation() <= state->requested()) {
    return absl::FailedPreconditionError("it was asked for before");
  }
  state->set_requested(request.generation());
  return absl::OkStatus();
}

absl::Status LeaveBy(const SessionDurable& durable, int shards, CheckpointState* state) {
  if (durable.generation_size() != shards) {
    return absl::FailedPreconditionError("it is of other shards");
  }
  state->mutable_left_by()->Resize(shards, 0);
  for (int shard = 0; shard < shards; ++shard) {
    state->set_left_by(shard, std::max(state->left_by(shard), durable.generation(shard)));
  }
  if (!durable.has_session()) {
    return absl::OkStatus();
  }
  const LeftSession& session = durable.session();
  const auto known = std::ranges::find_if(*state->mutable_left(), [&](const LeftSession& each) {
    return each.worker() == session.worker() && each.incarnation() == session.incarnation();
  });
  *(known == state->mutable_left()->end() ? state->add_left() : &*known) = session;
  return absl::OkStatus();
}

absl::Status Abandon(CheckpointState* state) {
  if (state->ordered() == 0) {
    return absl::FailedPreconditionError("no generation is under way");
  }
  state->set_ordered(0);
  return absl::OkStatus();
}

// Of generations before the one that is held.
void ForgetSnapshots(DurableJob* job) {
  if (job->has_sandblaster()) {
    auto* const snapshots = job->mutable_sandblaster()->mutable_snapshot();
    const auto kept = std::ranges::find_if(*snapshots, [job](const BatchSnapshot& each) {
      return each.generation() >= job->checkpoint().held();
    });
    snapshots->erase(snapshots->begin(), kept);
  }
}

}  // namespace

absl::Status ApplyToCheckpoints(const StateUpdate& update, DurableJob* job) {
  CheckpointState next = job->checkpoint();
  absl::Status status;
  switch (update.change_case()) {
    case StateUpdate::kCheckpointOrdered:
      status = Order(update.checkpoint_ordered(), &next);
      break;
    case StateUpdate::kCheckpointHeld:
      status = Hold(update.checkpoint_held(), &next);
      break;
    case StateUpdate::kCheckpointRequested:
      status = Request(update.checkpoint_requested(), &next);
      break;
    case StateUpdate::kSessionDurable:
      status = LeaveBy(update.session_durable(), job->shard_epoch_size(), &next);
      break;
    case StateUpdate::kCheckpointAbandoned:
      status = Abandon(&next);
      break;
    case StateUpdate::kStorageGivenUp:
      if (!job->memory_only().empty() || update.storage_given_up().reason().empty()) {
        status = absl::FailedPreconditionError("it is in memory only, or has no reason to be");
      }
      next.set_ordered(0);
      next.clear_left();
      break;
    case StateUpdate::kBestGeneration:
      if (update.best_generation().generation() <= job->best().generation() ||
          update.best_generation().generation() > next.held()) {
        status = absl::FailedPreconditionError("not a newer generation that is held");
      }
      break;
    default:
      status = absl::FailedPreconditionError("not of a job's checkpoints");
  }
  if (status.ok()) {
    job->set_memory_only(update.has_storage_given_up() ? update.storage_given_up().reason()
                                                       : job->memory_only());
    if (update.has_best_generation()) {
      *job->mutable_best() = update.best_generation();
    }
    *job->mutable_checkpoint() = std::move(next);
    ForgetSnapshots(job);
  }
  return status;
}

}  // namespace monsoon::internal
