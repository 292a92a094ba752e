// CheckpointKeeperTest: a CheckpointKeeper over a simulated disk and a real Shard, whose
// jobs have gradients that count themselves. For tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/marks_folder.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

inline constexpr uint64_t kEpoch = 7;  // of the first life
inline constexpr size_t kStripe = 64;  // floats
inline constexpr uint32_t kStripes = 4;
inline constexpr absl::Duration kPatience = absl::Seconds(30);
inline constexpr char kStateDir[] = "/state";
inline constexpr uint64_t kMemoryBytes = 8 << 20;

// Of one layer; SGD with rate 1, so that pushes of -1 count themselves.
inline CreateShardJobRequest MakeCreate(const std::string& name) {
  CreateShardJobRequest request;
  request.set_job(name);
  request.set_job_term(3);
  request.mutable_model()->set_name("tiny");
  request.mutable_model()->add_input_shape(16);
  Dense* const dense = request.mutable_model()->add_layer()->mutable_dense();
  dense->set_units(16);
  dense->set_no_bias(true);
  request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  request.set_shards(1);
  request.set_written_by_client(true);
  request.set_max_stripe_bytes(kStripe * sizeof(float));
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  return request;
}

class CheckpointKeeperTest : public ::testing::Test {
 protected:
  CheckpointKeeperTest() { Restart(); }

  // The next life of the shard, on the same disk.
  void Restart() {
    keeper_.reset();
    ShardOptions options{"test", task_, ++epoch_, memory_bytes_};
    if (marks_ != nullptr) {
      options.make_session_marks = [this](const CreateShardJobRequest& create, uint32_t stripes,
                                          bool fresh) {
        return marks_->OpenJob(create, stripes, fresh);
      };
    }
    shard_ = std::make_unique<Shard>(options);
    MakeKeeper();
  }

  void MakeKeeper(size_t keep_ended_jobs = 20) {
    keeper_ = std::make_unique<CheckpointKeeper>(
        CheckpointKeeperOptions{kStateDir, task_, keep_ended_jobs,
                                [this] {
                                  if (before_rename_ != nullptr) {
                                    before_rename_();
                                  }
                                  return owner_;
                                },
                                [this] {
                                  ++notes_;
                                  return note_;
                                },
                                marks_.get()},
        &storage_);
  }

  std::shared_ptr<ShardJob> MakeJob(const std::string& name) {
    EXPECT_OK(shard_->CreateJob(MakeCreate(name)));
    session_.set_job(name);
    session_.set_job_term(3);
    session_.set_worker(0);
    session_.set_incarnation(1);
    EXPECT_OK(shard_->OpenSession(session_));
    sequence_ = 0;
    return shard_->FindJob(name, 3);
  }

  // Adds one to every parameter of the session's job, or of its first stripes.
  void Push(uint32_t stripes = kStripes) {
    ++sequence_;
    PushRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(layout_hash_);
    for (uint32_t stripe = 0; stripe < stripes; ++stripe) {
      PushRecord* const record = request.add_record();
      record->set_stripe(stripe);
      record->set_sequence(sequence_);
      record->set_shard_epoch(epoch_);
      record->set_length(kStripe * sizeof(float));
    }
    const std::vector<float> gradient(stripes * kStripe, -1.0f);
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(gradient))};
    ChunkCursor cursor(chunks);
    const absl::StatusOr<PushReply> reply = shard_->Push(request, &cursor, &scratch_);
    ASSERT_OK(reply);
    for (const PushVerdict& verdict : reply->verdict()) {
      ASSERT_EQ(verdict.verdict(), APPLIED) << verdict.message();
    }
  }

  static CheckpointRequest OrderOf(const std::string& job, uint64_t generation) {
    CheckpointRequest order;
    order.set_job(job);
    order.set_job_term(3);
    order.set_generation(generation);
    order.mutable_context()->set_reason("asked for");
    order.mutable_context()->mutable_downpour()->set_steps(10 * generation);
    return order;
  }
  // The first of `job` by a coordinator that has `known` beside it.
  static CheckpointRequest FirstOrderOf(const std::string& job,
                                        const std::vector<std::string>& known) {
    CheckpointRequest order = OrderOf(job, 1);
    KnownJobs* const jobs = order.mutable_known_jobs();
    for (const std::string& name : known) {
      jobs->add_job()->set_job(name);
    }
    jobs->add_job()->set_job(job);
    for (KnownJobs::KnownJob& one : *jobs->mutable_job()) {
      one.set_job_term(3);
    }
    return order;
  }

  // Orders and waits.
  void Write(const std::shared_ptr<ShardJob>& job, uint64_t generation) {
    ASSERT_OK(keeper_->Order(job, OrderOf(job->request().job(), generation)));
    ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  }

  ShardJobStatus StatusOf(const std::string& job) {
    ShardStatusReply reply = *shard_->GetStatus({});
    keeper_->FillStatus(&reply);
    EXPECT_EQ(reply.state_dir(), kStateDir);
    for (const ShardJobStatus& status : reply.job()) {
      if (status.job() == job) {
        return status;
      }
    }
    return {};
  }

  absl::StatusOr<LoadedCheckpoint> Load(const std::string& job) {
    return LoadNewest(&storage_, JobFolder(kStateDir, job, 3), nullptr);
  }

  SimulatedStorage storage_;
  uint32_t task_ = 0;  // of the next life
  uint64_t layout_hash_ = MakeCreate("").layout_hash();
  absl::Status owner_;
  absl::Status note_;
  int notes_ = 0;                        // that a life has written a part
  std::function<void()> before_rename_;  // of a part's file, and of its manifest
  uint64_t memory_bytes_ = kMemoryBytes;
  uint64_t epoch_ = kEpoch - 1;         // of this life
  std::unique_ptr<MarksFolder> marks_;  // null: none are kept
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  SessionKey session_;
  uint64_t sequence_ = 0;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

}  // namespace monsoon
