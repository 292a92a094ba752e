// A small Downpour job, and replicas that are driven call by call.
#pragma once

#include <map>
#include <vector>

#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/downpour/downpour_options.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon::testing {

// 4 blocks of 20 samples an epoch, the last one with 10; batches of 5.
inline DownpourOptions FourBlocks(double epochs) {
  DownpourOptions options;
  options.examples = 70;
  options.block_examples = 20;
  options.batch_size = 5;
  options.stop.set_epochs(epochs);
  return options;
}

// Replicas that report each block at their next call.
class Replicas {
 public:
  explicit Replicas(DownpourJob* job) : job_(job) {}

  void Add(uint32_t worker) {
    job_->AddReplica(worker, now_);
    request_[worker] = 0;
    held_[worker].clear();
  }
  void Lose(uint32_t worker) {
    job_->RemoveReplica(worker, now_);
    held_.erase(worker);
  }
  // Asks for work, reporting all blocks held; with `report` false it reports none.
  NextWorkReply Ask(uint32_t worker, bool report = true) {
    NextWorkRequest request;
    request.set_request(++request_[worker]);
    if (report) {
      for (const BlockId& block : held_[worker]) {
        *request.add_done() = block;
      }
      held_[worker].clear();
    }
    absl::StatusOr<NextWorkReply> reply = job_->NextWork(worker, request, now_);
    EXPECT_OK(reply);
    for (const BlockId& block : reply->train().block()) {
      held_[worker].push_back(block);
      ++visits_[{block.epoch(), block.block()}];
    }
    return *reply;
  }
  absl::Status Report(uint32_t worker, uint64_t evaluation, uint64_t correct) {
    ReportEvaluationRequest request;
    request.set_evaluation(evaluation);
    request.set_examples(100);
    request.set_correct(correct);
    request.set_loss_sum(50);
    return job_->ReportEvaluation(worker, request, now_);
  }
  void Advance(absl::Duration by) { now_ += by; }

  absl::Duration now_ = absl::Seconds(1000);
  DownpourJob* const job_;
  std::map<uint32_t, uint64_t> request_;
  std::map<uint32_t, std::vector<BlockId>> held_;
  std::map<BlockRef, int> visits_;
};

}  // namespace monsoon::testing
