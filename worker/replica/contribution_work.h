// ContributionWork: contributions to a batch gradient (ContributionRunner).
//
// Thread safety: as SessionWork.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/coordinator.pb.h"
#include "worker/replica/session_work.h"
#include "worker/sandblaster/contribution_runner.h"

namespace monsoon {

class ContributionWork : public SessionWork {
 public:
  // Both must outlive this.
  ContributionWork(ContributionRunner* runner, const Clock* clock)
      : runner_(runner), clock_(clock) {}

  NextWorkReply::WorkCase lease() const override { return NextWorkReply::kContribute; }
  absl::Status Append(const NextWorkReply& reply) override;
  bool left() const override { return runner_->left() > 0; }
  // A result is reported at once, since the whole batch waits for it.
  bool WantsMore() const override;
  // To wait: does not ask before, but to report. Anything else: the batch was completed by
  // copies elsewhere, and what is left is of no use.
  bool Take(const NextWorkReply& reply) override;

  absl::Status Step() override { return runner_->Step(); }
  absl::Status Finish() override { return runner_->FinishCurrent(); }
  void TakeBack() override { runner_->RestoreParameters(); }

  absl::Status AwaitDone(FinishedWork* done) override;
  bool unreported() const override { return runner_->unreported(); }

 private:
  ContributionRunner* const runner_;
  const Clock* const clock_;
  absl::Duration ask_after_;
};

}  // namespace monsoon
