#include "worker/sandblaster/contribution_runner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/session/session_status.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// Between two tries of a call that a shard did not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(20);

}  // namespace

ContributionRunner::ContributionRunner(const ContributionRunnerOptions& options,
                                       ContributionReader* reader, ParameterClient* client,
                                       ReplicaGroup* group, StatsCollector* stats,
                                       SessionControl* control, const Clock* clock)
    : options_(options),
      reader_(reader),
      client_(client),
      group_(group),
      stats_(stats),
      control_(control),
      clock_(clock),
      parameters_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(options.floats))),
      sum_(options.floats, group),
      sender_(options.floats, client, stats, control, clock) {
  group_->LockPages(parameters_.get());
  group_->LockPages(sender_.memory());
}

absl::Status ContributionRunner::Append(const NextWorkReply::Contribute& work) {
  if (work.evaluation() != evaluation_) {
    if (!queue_.empty()) {
      LOG(DEBUG) << "evaluation " << evaluation_ << " ended before " << queue_.size()
                 << " contributions of this replica";
    }
    Abandon();
    evaluation_ = work.evaluation();
    vector_ = work.vector();
  }
  for (const NextWorkReply::Contribution& contribution : work.contribution()) {
    RETURN_IF_ERROR(reader_->Append(contribution));
    queue_.push_back(contribution.contribution());
  }
  return absl::OkStatus();
}

void ContributionRunner::Abandon() {
  reader_->Clear();
  queue_.clear();
  current_.reset();
}

void ContributionRunner::CloseAll() {
  for (const uint32_t contribution : queue_) {
    ContributionResult result;
    result.set_evaluation(evaluation_);
    result.set_contribution(contribution);
    result.set_finite(true);
    result.set_closed(true);
    sender_.AddResult(std::move(result));
  }
  Abandon();
}

void ContributionRunner::RestoreParameters() {
  if (fetched_evaluation_ != 0) {
    group_->SetParameters(parameters_);
  }
}

absl::Status ContributionRunner::PrepareParameters() {
  if (fetched_evaluation_ == evaluation_) {
    return absl::OkStatus();
  }
  fetched_evaluation_ = 0;
  const absl::Duration begin = clock_->Now();
  while (true) {
    FetchStats fetch;
    const absl::Status status = client_->FetchVector(vector_, parameters_->span(), &fetch);
    if (status.ok()) {
      stats_->AddFetch(fetch, clock_->Now() - begin);
      break;
    }
    if (!IsTransient(status) || absl::IsCancelled(status) ||
        control_->state() == SessionControl::State::kStop) {
      return status;
    }
    LOG(WARNING) << "fetch of vector " << vector_ << ": " << std::string(status.message())
                 << "; trying again";
    stats_->AddRetry(status.message());
    control_->Sleep(kRetryPause);
  }
  fetched_evaluation_ = evaluation_;
  group_->SetParameters(parameters_);
  return absl::OkStatus();
}

absl::Status ContributionRunner::Step() {
  RETURN_IF_ERROR(sender_.status());
  if (sender_.closed_evaluation() == evaluation_) {
    CloseAll();
  }
  if (queue_.empty()) {
    return absl::OkStatus();
  }
  if (!current_.has_value()) {
    if (absl::Status status = PrepareParameters(); absl::IsNotFound(status)) {
      LOG(DEBUG) << "evaluation " << evaluation_ << " is over: " << std::string(status.message());
      CloseAll();
      return absl::OkStatus();
    } else {
      RETURN_IF_ERROR(status);
    }
    current_.emplace();
    sum_.Clear();
  }
  return ComputeRound();
}

absl::Status ContributionRunner::ComputeRound() {
  round_.clear();
  size_t added = 0;
  bool ends_chunk = false;
  bool of_current = true;
  while (group_->room() > 0 && reader_->pieces_left() > 0) {
    const absl::StatusOr<ContributionReader::Piece> next = reader_->Next();
    if (!next.ok()) {
      return absl::DataLossError(absl::StrCat("reading the batch: ", next.status().message()));
    }
    const ContributionReader::Piece& piece = *next;
    Computed computed{piece.ends_contribution, piece.batch->examples, {}};
    if (!of_current || current_->finite) {
      computed.slot = added++;
      ends_chunk |= piece.ends_chunk;
      group_->Add(piece.batch, StepKey{options_.seed, options_.worker, 0, piece.samples});
    }
    of_current &= !piece.ends_contribution;
    round_.push_back(computed);
    if (group_->replicas() == 1) {
      break;
    }
  }
  const absl::Duration begin = clock_->Now();
  RETURN_IF_ERROR(sum_.ComputeRound());
  group_->Reclaim(&parameters_);
  if (ends_chunk && options_.chunk_delay > absl::ZeroDuration()) {
    control_->Sleep(options_.chunk_delay);
  }
  const absl::Duration share = (clock_->Now() - begin) / std::max<int64_t>(1, std::ssize(round_));
  for (const Computed& computed : round_) {
    RETURN_IF_ERROR(Take(computed, share));
    if (queue_.empty()) {
      break;  // the evaluation is over
    }
  }
  return absl::OkStatus();
}

absl::Status ContributionRunner::Take(const Computed& computed, absl::Duration duration) {
  if (!current_.has_value()) {
    current_.emplace();
    sum_.Clear();
  }
  current_->examples += computed.examples;
  current_->compute += duration;
  if (computed.slot.has_value() && current_->finite) {
    const StepResult& result = group_->result(*computed.slot);
    current_->loss_sum += result.loss_mean * static_cast<double>(result.examples);
    current_->correct += result.correct;
    current_->unjudged += result.unjudged;
    current_->finite = std::isfinite(current_->loss_sum);
    sum_.Add(*computed.slot, result.examples);
  }
  return computed.ends_contribution ? Finish() : absl::OkStatus();
}

ContributionResult ContributionRunner::MakeResult(uint32_t contribution) const {
  ContributionResult result;
  result.set_evaluation(evaluation_);
  result.set_contribution(contribution);
  result.set_loss_sum(current_->loss_sum);
  result.set_examples(current_->examples);
  result.set_correct(current_->correct);
  result.set_finite(current_->finite);
  result.set_compute_s(absl::ToDoubleSeconds(current_->compute));
  return result;
}

absl::Status ContributionRunner::Finish() {
  RETURN_IF_ERROR(sender_.Await());
  if (sender_.closed_evaluation() == evaluation_) {
    CloseAll();
    return absl::OkStatus();
  }
  if (current_->finite) {
    if (const absl::Status status = sum_.Round(sender_.buffer()); !status.ok()) {
      return DeviceError(absl::StrCat("worker/", options_.worker, ": ", status.message()));
    }
    current_->finite = !FirstNonFinite(sender_.buffer()).has_value();
  }
  ContributionResult result = MakeResult(queue_.front());
  const uint64_t unjudged = current_->unjudged;
  queue_.pop_front();
  current_.reset();
  if (result.finite()) {
    MONSOON_FAIL_POINT("contribution.computed");
    sender_.Send(std::move(result), unjudged);
  } else {
    LOG(INFO) << "contribution " << result.contribution() << " of evaluation " << evaluation_
              << " is not finite: loss " << result.loss_sum();
    sender_.AddResult(std::move(result));
  }
  return absl::OkStatus();
}

absl::Status ContributionRunner::FinishCurrent() {
  const size_t last = queue_.empty() ? 0 : queue_.size() - 1;
  while (current_.has_value() && queue_.size() > last) {
    RETURN_IF_ERROR(Step());
  }
  Abandon();
  return sender_.Await();
}

}  // namespace monsoon
