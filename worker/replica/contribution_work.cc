#include "worker/replica/contribution_work.h"

#include "common/base/status.h"

namespace monsoon {

absl::Status ContributionWork::Append(const NextWorkReply& reply) {
  ask_after_ = absl::ZeroDuration();
  return runner_->Append(reply.contribute());
}

bool ContributionWork::WantsMore() const {
  return runner_->unreported() || (runner_->wants_more() && clock_->Now() >= ask_after_);
}

bool ContributionWork::Take(const NextWorkReply& reply) {
  if (reply.has_wait()) {
    ask_after_ = clock_->Now() + WaitOf(reply);
    return true;
  }
  runner_->Abandon();
  return false;
}

absl::Status ContributionWork::AwaitDone(FinishedWork* done) {
  RETURN_IF_ERROR(runner_->AwaitSent());
  done->contributions = runner_->TakeResults();
  return absl::OkStatus();
}

}  // namespace monsoon
