// The parts of CoordinatorState::Apply. Only for coordinator_state.cc.
#pragma once

#include "absl/status/status.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon::internal {

// Stage, reason, slices, what they have lost, events.
absl::Status ApplyToLife(const StateUpdate& update, DurableJob* job);
// Generations of checkpoints.
absl::Status ApplyToCheckpoints(const StateUpdate& update, DurableJob* job);
// Sessions, failures, exclusions, fingerprints.
absl::Status ApplyToSessions(const StateUpdate& update, DurableJob* job);
// What a batch can return to, and that it did.
absl::Status ApplyToBatch(const StateUpdate& update, DurableJob* job);
// What procedures have done.
absl::Status ApplyToProcedures(const StateUpdate& update, DurableJob* job);

absl::Status ApplyToSynchronous(const StateUpdate& update, SynchronousState* state);

// Of Downpour SGD, streams that programs read.
absl::Status ApplyToStreams(const StateUpdate& update, DownpourState* downpour);

}  // namespace monsoon::internal
