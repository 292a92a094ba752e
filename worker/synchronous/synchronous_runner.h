// SynchronousRunner: the steps of one member of a group (coordinator/synchronous says who is one):
// each computes the gradients of its own batches, all sum them (common/collective), and each takes
// the step that the sum makes, so that all keep the same state.
//
//   MemberState       parameters, optimizer state, where they stand
//   OrderReader       the batches
//   Communicator      the group, one for each generation
//   GradientExchange  the sum, part by part while the gradient is computed
//
// A group begins with what all go on from: where some member has not that state, another one sends
// it, and a digest shows that all have the same bits. What the members must agree on at a step
// (whether a gradient is of use) travels with the gradients.
//
// A member that is gone or silent ends the group, not the session: the step is given up, nothing
// has changed, and the runner waits for the next group.
//
// Thread safety: Abort may be called by any thread; the compute thread calls everything else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/collective/communicator.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/group/replica_group.h"
#include "worker/session/background_call.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"
#include "worker/synchronous/gradient_exchange.h"
#include "worker/synchronous/member_state.h"
#include "worker/synchronous/order_reader.h"
#include "worker/synchronous/peers.h"

namespace monsoon {

class SynchronousRunner {
 public:
  struct Parts {
    uint32_t worker = 0;
    const Job* job = nullptr;  // valid
    const ParameterLayout* layout = nullptr;
    ParameterClient* client = nullptr;
    ReplicaGroup* group = nullptr;
    OrderReader* reader = nullptr;
    MemberState* state = nullptr;
    StatsCollector* stats = nullptr;
    SessionControl* control = nullptr;
    Peers peers;
    const Clock* clock = Clock::Real();
  };

  // Everything pointed to outlives the runner.
  explicit SynchronousRunner(const Parts& parts);
  // Waits for a write that is under way: cancel the client first where that is not wanted.
  ~SynchronousRunner();

  // What the coordinator says next: a group, or more steps of the one that there is.
  absl::Status Take(const NextWorkReply::Synchronize& order);
  // Steps, or the beginning of a group, that were leased and are not done.
  bool left() const { return communicator_ != nullptr && (!joined_ || BatchesLeft() > 0); }
  // No more than half of the lease.
  bool wants_more() const;
  // That is done, or the group is over. Errors: DataLoss, DivergedError and those of the network.
  absl::Status Step();

  // For the next question. What was asked for with it is not asked for again.
  SynchronousReport Report();
  // A write is under way, or just done.
  bool unreported() const { return writer_.busy(); }

  // Leaves the group, as a replica that drains does: the others go on without it.
  void Leave();
  // Ends a step that waits for others; any thread.
  void Abort();

  const MemberState& state() const { return *parts_.state; }
  // Batches that were computed here.
  uint64_t steps() const { return steps_; }
  // Of the last step, of all members.
  StepResult last() const { return last_; }

 private:
  // What travels before the gradient: it is known last, as what is there of that.
  struct Head;

  uint64_t BatchesLeft() const { return order_.until_batches() - parts_.state->at().batches(); }
  uint64_t BatchesOfStep() const;
  // Of those, by members of a lower rank.
  uint64_t BatchesBefore() const;
  absl::Status Open();
  // The group's first act.
  absl::Status Join();
  absl::Status ShareState(uint32_t root);
  absl::Status CompareDigests();
  absl::Status TakeStep();
  // The gradient of this member's batches into sum_, and its head before it.
  absl::Status Compute(uint64_t taken);
  std::span<float> head();
  std::span<float> gradient();
  // What all members have added up, judged by all alike.
  absl::Status Judge(uint64_t taken);
  // The group is over for this member.
  absl::Status Break(const absl::Status& why);
  // `for_all`: the others have done with the group, too.
  void Close(bool for_all = false);
  // Begins the write that is wanted, if none is under way; takes what has come of one.
  void Write();
  void TakeWritten();
  CallOptions Call() const;

  const Parts parts_;
  const uint64_t seed_;
  AlignedFloats sum_;  // head and gradient
  GradientExchange exchange_;
  NextWorkReply::Synchronize order_;
  bool joined_ = false;
  uint64_t asked_until_ = 0;  // that was reported with the last question
  SynchronousReport report_;
  uint64_t steps_ = 0;
  absl::Duration step_begun_;
  StepResult last_;
  // By the compute thread alone, but for Abort's.
  Mutex mutex_;
  std::unique_ptr<Communicator> communicator_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t writing_ = 0;  // the number of the write under way
  uint64_t wanted_ = 0;   // that of the one that was ordered last
  MemberState::Snapshot copy_;
  // Last: its thread uses the ones above.
  BackgroundCall<absl::Status> writer_;
};

}  // namespace monsoon
