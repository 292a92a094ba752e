#include "worker/baseline/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/finite.h"
#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/model/bias_ranges.h"
#include "common/model/initializer.h"
#include "common/model/shard_map.h"
#include "common/optimizer/range_kernel.h"
#include "common/optimizer/tensor_ranges.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "worker/data/job_data.h"
#include "worker/data/permutation.h"
#include "worker/downpour/gradient_clip.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultEvaluationBatch = 500;
// Gathering one batch from memory or a disk takes far less.
constexpr absl::Duration kBatchTimeout = absl::Seconds(60);

absl::Duration Now() { return Clock::Real()->Now(); }

uint32_t AtLeastOne(uint32_t value) { return std::max(value, 1u); }

// Who moves the parameters where there is one process.
const Optimizer& OptimizerOf(const Job& job) {
  return job.downpour().local().has_inner() ? job.downpour().local().inner()
                                            : job.downpour().optimizer();
}

absl::Status CheckJob(const Job& job) {
  if (!job.has_downpour()) {
    return absl::InvalidArgumentError("the one-process trainer runs downpour jobs only");
  }
  if (job.batch_size() == 0) {
    return absl::InvalidArgumentError("batch_size must be at least 1");
  }
  const Stop& stop = job.stop();
  if (stop.has_early() || OptimizerOf(job).schedule().has_plateau()) {
    return absl::InvalidArgumentError(
        "the one-process trainer does not follow the test set's figures: leave out stop.early and "
        "the schedule's plateau");
  }
  if (stop.epochs() <= 0 && stop.steps() == 0 && stop.seconds() <= 0 &&
      stop.target_accuracy() <= 0) {
    return absl::InvalidArgumentError("stop: set epochs, steps, seconds or target_accuracy");
  }
  return absl::OkStatus();
}

}  // namespace

Trainer::Trainer(const Job& job, ParameterLayout layout)
    : job_(job),
      layout_(std::move(layout)),
      parameters_(AlignedFloats::NanFilled(layout_.size())),
      gradient_(AlignedFloats::NanFilled(layout_.size())) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Job& job,
                                                         const TrainerOptions& options) {
  RETURN_IF_ERROR(CheckJob(job));
  ASSIGN_OR_RETURN(ParameterLayout layout, ParameterLayout::Create(job.model()));
  std::unique_ptr<Trainer> trainer(new Trainer(job, std::move(layout)));
  Trainer& t = *trainer;
  ASSIGN_OR_RETURN(JobData data, OpenJobData(job, OpenerFor(), DataAccess::Own()));
  t.train_ = std::move(data.train);
  t.test_ = std::move(data.test);
  if (job.has_test()) {
    const uint32_t batch = job.evaluation().batch_size();
    t.evaluation_batch_ = Batch(batch == 0 ? kDefaultEvaluationBatch : batch, t.test_->format());
  } else if (job.stop().target_accuracy() > 0) {
    return absl::InvalidArgumentError("stop.target_accuracy needs a test set");
  }
  const Slice all{0, t.layout_.size()};
  t.statistics_ = StatisticRanges(t.layout_, all);
  const TensorRanges tensors = TensorRanges::OfModel(job.model(), t.layout_, OptimizerOf(job));
  ASSIGN_OR_RETURN(t.optimizer_, CreateRangeKernel(OptimizerOf(job), tensors, all));
  ASSIGN_OR_RETURN(t.network_, CreateNetwork(options.backend, job.model(), t.layout_,
                                             NetworkOptions{options.threads}));
  Initialize(t.layout_, job.seed(), 0, t.parameters_.span());
  t.state_ = AlignedFloats::NanFilled(t.layout_.size() * t.optimizer_->state_slots());
  t.state_.Fill(t.optimizer_->initial_state());
  if (job.downpour().n_fetch() > 1) {
    t.fetched_ = AlignedFloats::NanFilled(t.layout_.size());
  }
  if (job.downpour().n_push() > 1) {
    t.sum_ = AlignedFloats::NanFilled(t.layout_.size());
  }
  t.prefetcher_ = std::make_unique<Prefetcher>(
      t.train_.get(),
      Prefetcher::Options{.seed = job.seed(),
                          .batch_size = job.batch_size(),
                          .block_examples = BlockExamples(job.block_examples(), job.batch_size())});
  return trainer;
}

absl::StatusOr<std::unique_ptr<PrefetchedBatch>> Trainer::NextBatch() {
  // One epoch ahead: the order of the next one is made while this one trains.
  const uint64_t blocks = prefetcher_->layout().blocks();
  if (prefetcher_->waiting_blocks() == 0) {
    for (uint64_t block = 0; block < blocks; ++block) {
      prefetcher_->AddBlock({next_epoch_, block});
    }
    ++next_epoch_;
  }
  return prefetcher_->Next(kBatchTimeout);
}

absl::Status Trainer::Step(const Batch& batch) {
  const uint32_t n_fetch = AtLeastOne(job_.downpour().n_fetch());
  const uint32_t n_push = AtLeastOne(job_.downpour().n_push());
  if (n_fetch == 1) {
    network_->SetParameters(parameters_.span());
  } else if (steps_ % n_fetch == 0) {
    std::copy_n(parameters_.data(), parameters_.size(), fetched_.data());
    network_->SetParameters(fetched_.span());
  }
  // The first gradient of a push needs no sum.
  const std::span<float> out = n_push > 1 && summed_ == 0 ? sum_.span() : gradient_.span();
  ASSIGN_OR_RETURN(const StepResult result,
                   network_->LossAndGradient(batch, StepKey{job_.seed(), 0, steps_}, out));
  if (!std::isfinite(result.loss_mean)) {
    return absl::AbortedError(
        absl::StrCat("diverged: the loss of step ", steps_, " is ", result.loss_mean));
  }
  if (out.data() == gradient_.data() && n_push > 1) {
    for (size_t i = 0; i < sum_.size(); ++i) {
      sum_.data()[i] += gradient_.data()[i];
    }
  }
  ++summed_;
  ++steps_;
  examples_ += result.examples;
  interval_.loss_sum += result.loss_mean * static_cast<double>(result.examples);
  interval_.correct += result.correct;
  interval_.examples += result.examples;
  return summed_ == n_push ? Push() : absl::OkStatus();
}

absl::Status Trainer::Push() {
  if (summed_ == 0) {
    return absl::OkStatus();
  }
  const std::span<float> gradient = job_.downpour().n_push() > 1 ? sum_.span() : gradient_.span();
  if (FirstNonFinite(gradient).has_value()) {
    return absl::AbortedError(absl::StrCat("diverged: the gradient of step ", steps_ - 1,
                                           " is not finite at ",
                                           NameFirstNonFinite(layout_, gradient)));
  }
  ClipGradientNorm(gradient, OptimizerOf(job_).clip_norm(), statistics_);
  // Nothing has moved them between the steps: their mean (StatisticsKeeper).
  ScaleParts(gradient, statistics_, 1.0 / summed_);
  optimizer_->Apply(pushes_++, parameters_.span(), state_.span(), gradient);
  summed_ = 0;
  return absl::OkStatus();
}

bool Trainer::Finished() const {
  const Stop& stop = job_.stop();
  return (stop.epochs() > 0 && static_cast<double>(examples_) >=
                                   stop.epochs() * static_cast<double>(train_->examples())) ||
         (stop.steps() > 0 && steps_ >= stop.steps()) ||
         (stop.seconds() > 0 && absl::ToDoubleSeconds(training_time_) >= stop.seconds());
}

bool Trainer::EvaluationDue(bool last) const {
  if (test_ == nullptr) {
    return false;
  }
  const double every = job_.evaluation().every_epochs();
  const double epochs = static_cast<double>(examples_) / static_cast<double>(train_->examples());
  return last || (every > 0 && epochs >= last_evaluation_ + every);
}

absl::Status Trainer::Evaluate(TrainingReport& report) {
  network_->SetParameters(parameters_.span());
  double loss = 0;
  double correct = 0;
  std::vector<uint32_t> indices;
  for (uint64_t begin = 0; begin < test_->examples(); begin += indices.size()) {
    indices.resize(std::min<uint64_t>(evaluation_batch_.capacity(), test_->examples() - begin));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
    RETURN_IF_ERROR(test_->Gather(indices, &evaluation_batch_));
    ASSIGN_OR_RETURN(const EvaluationResult result, network_->Evaluate(evaluation_batch_));
    loss += result.loss_sum;
    correct += result.correct;
  }
  report.test_loss = loss / static_cast<double>(test_->examples());
  report.test_accuracy = correct / static_cast<double>(test_->examples());
  last_evaluation_ = report.epoch;
  // Between two fetches the steps go on with the parameters they had.
  if (fetched_.size() > 0) {
    network_->SetParameters(fetched_.span());
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingReport> Trainer::Report(bool evaluate) {
  TrainingReport report;
  const double seen = static_cast<double>(interval_.examples);
  report.epoch = static_cast<double>(examples_) / static_cast<double>(train_->examples());
  report.step = steps_;
  report.examples = examples_;
  report.loss = seen > 0 ? interval_.loss_sum / seen : 0;
  report.accuracy = seen > 0 ? interval_.correct / seen : 0;
  report.examples_per_s =
      interval_.time > absl::ZeroDuration() ? seen / absl::ToDoubleSeconds(interval_.time) : 0;
  report.elapsed_s = absl::ToDoubleSeconds(training_time_);
  interval_ = Interval();
  if (evaluate) {
    RETURN_IF_ERROR(Evaluate(report));
  }
  return report;
}

absl::StatusOr<TrainingReport> Trainer::Run(
    const std::function<void(const TrainingReport&)>& on_report) {
  const uint64_t last_block = prefetcher_->layout().blocks() - 1;
  while (true) {
    const absl::Duration begin = Now();
    ASSIGN_OR_RETURN(std::unique_ptr<PrefetchedBatch> batch, NextBatch());
    RETURN_IF_ERROR(Step(batch->batch));
    const bool epoch_end = batch->last_of_block && batch->block.block == last_block;
    prefetcher_->Recycle(std::move(batch));
    absl::Duration time = Now() - begin;
    training_time_ += time;
    interval_.time += time;
    const bool last = Finished();
    if (last) {
      RETURN_IF_ERROR(Push());
    }
    const bool evaluate = EvaluationDue(last);
    if (!last && !epoch_end && !evaluate) {
      continue;
    }
    ASSIGN_OR_RETURN(const TrainingReport report, Report(evaluate));
    on_report(report);
    const double target = job_.stop().target_accuracy();
    if (last || (target > 0 && report.test_accuracy && *report.test_accuracy >= target)) {
      return report;
    }
  }
}

}  // namespace monsoon
