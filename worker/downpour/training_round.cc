#include "worker/downpour/training_round.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/downpour/device_status.h"
#include "worker/downpour/gradient_clip.h"

namespace monsoon {

TrainingRound::TrainingRound(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                             ReplicaGroup* group, const StatisticsKeeper* statistics,
                             StatsCollector* stats)
    : worker_(options.worker),
      seed_(options.seed),
      step_clip_norm_(options.step_clip_norm),
      group_(group),
      statistics_(statistics),
      stats_(stats),
      judge_(options.divergence, layout, options.of_program) {}

std::string TrainingRound::Where(size_t i) const {
  return absl::StrCat("worker/", worker_, " step ", steps_ + i);
}

void TrainingRound::Add(Batch* batch, const std::optional<BlockId>& last_of) {
  const uint64_t step = steps_ + (group_->live() - group_->room());
  group_->Add(batch, StepKey{seed_, worker_, step, {}});
  if (last_of.has_value()) {
    ending_.push_back(*last_of);
  }
}

absl::Status TrainingRound::Compute(std::span<float> gradient) {
  return gradient.empty() ? group_->ComputeOnDevices() : group_->ComputeGradients(gradient);
}

absl::Status TrainingRound::Judge(std::span<const float> parameters) {
  for (size_t i = 0; i < group_->size(); ++i) {
    const StepResult& result = group_->result(i);
    const bool finite = std::isfinite(result.loss_mean);
    if (!finite) [[unlikely]] {
      RETURN_IF_ERROR(
          judge_.NonFiniteLoss(Where(i), result.loss_mean, group_->CopyGradient(i), parameters));
      stats_->AddRefused();
    } else {
      judge_.Used();
    }
    if (!finite || result.steps == 0) {
      group_->Drop(i);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainingRound::Sum(std::span<float> gradient) {
  if (gradient.empty()) {
    // What the host alone can do to a gradient has kept it from the device (MakeExchange).
    const absl::StatusOr<bool> summed = group_->SumOnDevice();
    return summed.ok() ? summed : OfDevice(worker_, summed.status());
  }
  if (!group_->Sum(gradient)) {
    return false;
  }
  // The norm is of gradients alone. Statistics then count once, however many replicas there are.
  ClipGradientNorm(gradient, step_clip_norm_, statistics_->parts());
  size_t summed = 0;
  for (size_t i = 0; i < group_->size(); ++i) {
    summed += group_->dropped(i) ? 0 : 1;
  }
  statistics_->MeanOfRound(gradient, summed);
  return true;
}

std::vector<TensorSlice> TrainingRound::absent() const {
  std::optional<std::vector<TensorSlice>> common;
  for (size_t i = 0; i < group_->size(); ++i) {
    if (group_->dropped(i)) {
      continue;
    }
    if (common.has_value()) {
      KeepCommon(group_->result(i).absent, &*common);
    } else {
      common = group_->result(i).absent;
    }
  }
  return common.value_or(std::vector<TensorSlice>());
}

void TrainingRound::End(DifferenceWeigher* weigher) {
  ending_.clear();
  for (size_t i = 0; i < group_->size(); ++i) {
    steps_ += group_->result(i).steps;
    if (!group_->dropped(i)) {
      weigher->Add(group_->result(i));
    }
  }
}

StepResult TrainingRound::Count(absl::Duration duration, absl::Duration stepping) const {
  StepResult sum;
  sum.steps = 0;
  uint64_t with_loss = 0;
  for (size_t i = 0; i < group_->size(); ++i) {
    // A dropped step has no loss that could enter a mean.
    if (group_->dropped(i)) {
      continue;
    }
    StepResult step = group_->result(i);
    step.computing += stepping;
    stats_->AddStep(step, duration);
    sum.steps += step.steps;
    if (step.has_loss) {
      sum.loss_mean += step.loss_mean * static_cast<double>(step.examples);
      with_loss += step.examples;
    }
    sum.correct += step.correct;
    sum.examples += step.examples;
    sum.unjudged += step.unjudged;
  }
  sum.loss_mean /= static_cast<double>(std::max<uint64_t>(1, with_loss));
  sum.has_loss = with_loss > 0;
  return sum;
}

}  // namespace monsoon
