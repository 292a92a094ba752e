// SynchronousWork: steps as a member of a group, of which SynchronousRunner takes one at a time.
//
// Thread safety: as SessionWork.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/coordinator.pb.h"
#include "worker/replica/session_work.h"
#include "worker/session/work_source.h"
#include "worker/synchronous/synchronous_runner.h"

namespace monsoon {

class SynchronousWork : public SessionWork {
 public:
  // All must outlive this. `worker`: for messages.
  SynchronousWork(SynchronousRunner* runner, uint32_t worker, const Clock* clock);

  NextWorkReply::WorkCase lease() const override { return NextWorkReply::kSynchronize; }
  absl::Status Append(const NextWorkReply& reply) override {
    return runner_->Take(reply.synchronize());
  }
  bool left() const override { return runner_->left(); }
  bool WantsMore() const override { return runner_->wants_more(); }

  absl::Status Step() override;
  absl::Status Finish() override {
    runner_->Leave();
    return absl::OkStatus();
  }
  void TakeBack() override {}
  void TakeDone(FinishedWork* done) override { done->synchronous = runner_->Report(); }

 private:
  void LogProgress();

  SynchronousRunner* const runner_;
  const uint32_t worker_;
  const Clock* const clock_;
  uint64_t logged_steps_ = 0;
  absl::Duration logged_at_;
};

}  // namespace monsoon
