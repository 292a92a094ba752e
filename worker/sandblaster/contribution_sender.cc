#include "worker/sandblaster/contribution_sender.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// Between two tries of a call that a shard did not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(20);
constexpr absl::Duration kWaitSlice = absl::Seconds(1);

}  // namespace

ContributionSender::ContributionSender(size_t floats, ParameterClient* client,
                                       StatsCollector* stats, SessionControl* control,
                                       const Clock* clock)
    : client_(client),
      stats_(stats),
      control_(control),
      clock_(clock),
      buffer_(AlignedFloats::NanFilled(floats)) {}

absl::Status ContributionSender::Await() {
  MutexLock lock(&mutex_);
  while (in_flight_) {
    changed_.WaitFor(&mutex_, kWaitSlice);
  }
  return status_;
}

absl::Status ContributionSender::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void ContributionSender::Send(ContributionResult result, uint64_t unjudged) {
  {
    MutexLock lock(&mutex_);
    CHECK(!in_flight_);
    in_flight_ = true;
  }
  // The last call has ended but for its return.
  while (call_.busy() && !call_.WaitTake(kWaitSlice).has_value()) {
  }
  call_.Start([this, result = std::move(result), unjudged] {
    const absl::Status status = SendNow(result, unjudged);
    {
      MutexLock lock(&mutex_);
      in_flight_ = false;
      if (status_.ok()) {
        status_ = status;
      }
    }
    changed_.NotifyAll();
    return true;
  });
}

absl::Status ContributionSender::SendNow(ContributionResult result, uint64_t unjudged) {
  const absl::Duration begin = clock_->Now();
  absl::StatusOr<ParameterClient::ContributeResult> sent;
  while (true) {
    sent = client_->Contribute(result.evaluation(), result.contribution(), buffer_.span());
    if (sent.ok() || !IsTransient(sent.status()) || absl::IsCancelled(sent.status()) ||
        control_->state() == SessionControl::State::kStop) {
      break;
    }
    LOG(WARNING) << "contribution " << result.contribution() << " of evaluation "
                 << result.evaluation() << ": " << std::string(sent.status().message())
                 << "; trying again";
    stats_->AddRetry(sent.status().message());
    control_->Sleep(kRetryPause);
  }
  RETURN_IF_ERROR(sent.status());
  MONSOON_FAIL_POINT("contribution.sent");
  stats_->AddContribution(*sent, clock_->Now() - begin);
  if (sent->closed) {
    LOG(DEBUG) << "evaluation " << result.evaluation() << " is over: contribution "
               << result.contribution() << " came late";
    result.set_closed(true);
  } else {
    StepResult step;
    step.loss_mean = result.loss_sum() / static_cast<double>(result.examples());
    step.correct = result.correct();
    step.examples = result.examples();
    step.unjudged = unjudged;
    stats_->AddStep(step, absl::Seconds(result.compute_s()));
  }
  AddResult(std::move(result));
  return absl::OkStatus();
}

void ContributionSender::AddResult(ContributionResult result) {
  MutexLock lock(&mutex_);
  if (result.closed()) {
    closed_evaluation_ = result.evaluation();
  }
  results_.push_back(std::move(result));
}

std::vector<ContributionResult> ContributionSender::TakeResults() {
  MutexLock lock(&mutex_);
  return std::exchange(results_, {});
}

bool ContributionSender::unreported() const {
  MutexLock lock(&mutex_);
  return in_flight_ || !results_.empty();
}

uint64_t ContributionSender::closed_evaluation() const {
  MutexLock lock(&mutex_);
  return closed_evaluation_;
}

}  // namespace monsoon
