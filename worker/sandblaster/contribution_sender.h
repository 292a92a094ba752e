// ContributionSender: sends one contribution's gradient at a time to all shards
// in a thread of its own, and keeps its result until it may be reported: once
// all shards have acknowledged it, or one said that the evaluation is over.
//
// A shard that does not answer is asked again until the session is stopped.
//
// Thread safety: buffer and Send belong to the compute thread; the rest may be
// called by any thread, so that the one that asks for work can wait for the
// acknowledgement and report it at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/session/background_call.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

class ContributionSender {
 public:
  // Everything pointed to must outlive the sender.
  ContributionSender(size_t floats, ParameterClient* client, StatsCollector* stats,
                     SessionControl* control, const Clock* clock);
  // Waits for the call in flight; stop the session or cancel the client first.
  ~ContributionSender() = default;

  // Blocks while a gradient is in flight. The error of the first send that
  // failed: the session cannot go on.
  absl::Status Await();
  // The same without waiting.
  absl::Status status() const;

  // Where the next gradient is written. Only while nothing is in flight.
  std::span<float> buffer() { return buffer_.span(); }
  AlignedFloats* memory() { return &buffer_; }  // of buffer()

  // Sends buffer() as the contribution that `result` names; of its samples `unjudged` are neither
  // right nor wrong. Nothing may be in flight.
  void Send(ContributionResult result, uint64_t unjudged = 0);

  // A result of which nothing is sent.
  void AddResult(ContributionResult result);

  // What may be reported and was not taken yet.
  std::vector<ContributionResult> TakeResults();

  // A gradient is in flight, or a result was not taken.
  bool unreported() const;

  // The last evaluation that a shard said is over; 0: none.
  uint64_t closed_evaluation() const;

 private:
  absl::Status SendNow(ContributionResult result, uint64_t unjudged);

  ParameterClient* const client_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;
  AlignedFloats buffer_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<ContributionResult> results_ ABSL_GUARDED_BY(mutex_);
  uint64_t closed_evaluation_ ABSL_GUARDED_BY(mutex_) = 0;

  // Last: its thread uses the ones above.
  BackgroundCall<bool> call_;
};

}  // namespace monsoon
