// TrainingWork: blocks of the data, of which DownpourRunner makes steps.
//
// Thread safety: as SessionWork.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/coordinator.pb.h"
#include "worker/data/block_reader.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/step_result.h"
#include "worker/replica/session_work.h"

namespace monsoon {

// Steps between two log lines.
inline constexpr uint64_t kLogSteps = 100;

// A line of the log: how far `worker` is, and how the last step went.
void LogStep(uint32_t worker, uint64_t steps, const StepResult& result, double mean_ms);

class TrainingWork : public SessionWork {
 public:
  // All must outlive this. With overlap NONE nothing is asked for while steps are computed.
  // `worker`: for messages.
  TrainingWork(DownpourRunner* runner, BlockReader* reader, Overlap overlap, uint32_t worker,
               const Clock* clock);

  NextWorkReply::WorkCase lease() const override { return NextWorkReply::kTrain; }
  absl::Status Append(const NextWorkReply& reply) override;
  bool left() const override { return reader_->blocks_left() > 0; }
  bool WantsMore() const override;

  absl::Status Step() override;
  absl::Status Idle() override { return runner_->Idle(); }
  absl::Status Flush() override { return runner_->Flush(); }
  absl::Status Settle() override { return runner_->Settle(); }
  absl::Status Finish() override { return runner_->Flush(); }
  absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration patience) override {
    return runner_->AwaitDurable(patience);
  }
  uint64_t pushes() const override { return runner_->pushes(); }
  absl::Status Lend() override { return runner_->BringParameters(); }
  void TakeBack() override { runner_->RestoreParameters(); }

  void TakeDone(FinishedWork* done) override {
    done->parts = runner_->TakeDone();
    done->ready_epochs = runner_->ready_epochs();
  }

 private:
  void LogProgress(const StepResult& result);

  DownpourRunner* const runner_;
  BlockReader* const reader_;
  const Overlap overlap_;
  const uint32_t worker_;
  const Clock* const clock_;
  uint64_t logged_steps_ = 0;
  absl::Duration logged_at_;
};

}  // namespace monsoon
