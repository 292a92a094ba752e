#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/state/apply.h"
#include "coordinator/state/coordinator_state.h"

namespace monsoon {
namespace internal {
namespace {

absl::Status AddSnapshot(const BatchSnapshot& snapshot, DurableJob* job) {
  if (snapshot.generation() == 0 || snapshot.generation() != job->checkpoint().ordered()) {
    return absl::FailedPreconditionError("not of the generation that is under way");
  }
  if (snapshot.at_case() == BatchSnapshot::AT_NOT_SET) {
    return absl::FailedPreconditionError("a snapshot of nothing");
  }
  *job->mutable_sandblaster()->add_snapshot() = snapshot;
  return absl::OkStatus();
}

absl::Status Return(const BatchReturned& returned, DurableJob* job) {
  SandblasterState* const sandblaster = job->mutable_sandblaster();
  const BatchSnapshot* const held = HeldSnapshot(*job);
  if (held == nullptr || held->has_end() || job->checkpoint().ordered() != 0) {
    return absl::FailedPreconditionError(
        job->checkpoint().ordered() != 0
            ? absl::StrCat("generation ", job->checkpoint().ordered(), " is under way")
            : "no generation is held that the batch can return to");
  }
  if (returned.attempt() != sandblaster->attempt() + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("attempt ", returned.attempt(), " after ", sandblaster->attempt()));
  }
  sandblaster->set_attempt(returned.attempt());
  auto* const iterations = sandblaster->mutable_iteration();
  const auto later = std::ranges::find_if(*iterations, [&](const auto& iteration) {
    return !held->has_minimizer() || iteration.iteration() > held->minimizer().iterations();
  });
  iterations->erase(later, iterations->end());
  const BatchSnapshot kept = *held;
  sandblaster->clear_snapshot();
  *sandblaster->add_snapshot() = kept;
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyToBatch(const StateUpdate& update, DurableJob* job) {
  if (!job->has_sandblaster()) {
    return absl::FailedPreconditionError("the procedure has not begun");
  }
  return update.has_batch_snapshot() ? AddSnapshot(update.batch_snapshot(), job)
                                     : Return(update.batch_returned(), job);
}

}  // namespace internal

const BatchSnapshot* HeldSnapshot(const DurableJob& job) {
  const auto& snapshots = job.sandblaster().snapshot();
  const auto held = std::ranges::find_if(snapshots, [&job](const BatchSnapshot& each) {
    return each.generation() == job.checkpoint().held();
  });
  return held == snapshots.end() ? nullptr : &*held;
}

}  // namespace monsoon
