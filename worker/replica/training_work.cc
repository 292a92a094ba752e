#include "worker/replica/training_work.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"

namespace monsoon {

void LogStep(uint32_t worker, uint64_t steps, const StepResult& result, double mean_ms) {
  const auto known = [](std::optional<double> value) { return value ? absl::StrCat(*value) : "-"; };
  LOG(INFO) << "Worker " << worker << ", At step " << steps << ", Cost: "
            << known(result.has_loss ? std::optional<double>(result.loss_mean) : std::nullopt)
            << ", Accuracy: " << known(result.accuracy()) << ", AvgTime: " << mean_ms << " ms";
}

TrainingWork::TrainingWork(DownpourRunner* runner, BlockReader* reader, Overlap overlap,
                           uint32_t worker, const Clock* clock)
    : runner_(runner),
      reader_(reader),
      overlap_(overlap),
      worker_(worker),
      clock_(clock),
      logged_at_(clock->Now()) {}

absl::Status TrainingWork::Append(const NextWorkReply& reply) {
  for (const BlockId& block : reply.train().block()) {
    LOG(DEBUG) << "block " << block.block() << " of epoch " << block.epoch();
    RETURN_IF_ERROR(reader_->Append(block));
  }
  return absl::OkStatus();
}

bool TrainingWork::WantsMore() const {
  return overlap_ == ASYNC && reader_->wants_more(runner_->room());
}

absl::Status TrainingWork::Step() {
  while (runner_->room() > 0 && reader_->blocks_left() > 0) {
    absl::StatusOr<BlockReader::Piece> piece = reader_->Next();
    if (!piece.ok()) {
      return absl::DataLossError(absl::StrCat("reading training data: ", piece.status().message()));
    }
    runner_->Add(piece->batch, piece->last_of);
  }
  ASSIGN_OR_RETURN(const StepResult result, runner_->Step());
  LogProgress(result);
  return absl::OkStatus();
}

void TrainingWork::LogProgress(const StepResult& result) {
  const uint64_t steps = runner_->steps();
  if (steps / kLogSteps == logged_steps_ / kLogSteps) {
    return;
  }
  const absl::Duration now = clock_->Now();
  const double mean_ms =
      absl::ToDoubleMilliseconds(now - logged_at_) / static_cast<double>(steps - logged_steps_);
  LogStep(worker_, steps, result, mean_ms);
  logged_steps_ = steps;
  logged_at_ = now;
}

}  // namespace monsoon
