// Parts of jobs with fetch_changes.
#include <memory>
#include <string>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "proto/downpour.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/shard/round.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

class ChangesPartTest : public CheckpointKeeperTest {
 protected:
  CreateShardJobRequest Create() const {
    CreateShardJobRequest create = MakeCreate(name_);
    create.set_fetch_changes(BFLOAT16);
    if (rounds_) create.mutable_rounds();
    return create;
  }
  std::shared_ptr<ShardJob> Start() {
    EXPECT_OK(shard_->CreateJob(Create()));
    session_.set_job(name_);
    session_.set_job_term(3);
    session_.set_worker(0);
    session_.set_incarnation(1);
    EXPECT_OK(shard_->OpenSession(session_));
    sequence_ = 0;
    return shard_->FindJob(name_, 3);
  }
  // The records of a fetch by a client that has `known` of the life `epoch`.
  std::vector<FetchRecord> Fetch(uint64_t known, uint64_t epoch) {
    FetchRequest fetch;
    *fetch.mutable_session() = session_;
    fetch.set_layout_hash(MakeCreate("").layout_hash());
    fetch.set_stripe_count(kStripes);
    fetch.set_changes(true);
    fetch.set_known_epoch(epoch);
    for (uint32_t i = 0; i < kStripes; ++i) fetch.add_known_version(known);
    const auto job = shard_->FindJob(name_, 3);
    const auto copied = job->fetches()->CopyChanges(fetch, 0, kStripes, &copy_);
    EXPECT_OK(copied);
    return copied.ok() ? copied->records : std::vector<FetchRecord>();
  }

  std::string name_ = "changes-1";
  bool rounds_ = false;
  AlignedFloats copy_{kStripes * kStripe};
};

// Pushes count 1, 2, 3 ... 258, of which a bfloat16 has 8 bits.
TEST_F(ChangesPartTest, TheCopyComesBackToTheBitAndFetchesAreWhole) {
  for (const bool rounds : {false, true}) {
    rounds_ = rounds;
    name_ = rounds ? "changes-2" : "changes-1";
    std::shared_ptr<ShardJob> job = Start();
    Fetch(0, 0);
    while (sequence_ < 257) Push();
    Fetch(0, epoch_);  // 256, in one change
    Push();
    Write(job, 1);
    const std::string before = job->stripes()->Snapshot();
    const absl::StatusOr<LoadedCheckpoint> loaded = Load(name_);
    ASSERT_OK(loaded);
    EXPECT_EQ(loaded->content.state_slots(), 1u + (rounds ? Round::kSlots : 0));
    EXPECT_EQ(OptimizerSlots(loaded->content), 0u);
    EXPECT_THAT(loaded->parameters, Each(258.0f));
    const std::vector<float> copy(loaded->state.end() - kStripes * kStripe, loaded->state.end());
    EXPECT_THAT(copy, Each(256.0f));

    const uint64_t old = epoch_;
    job.reset();  // before its shard
    Restart();
    RestoreShardJobRequest request;
    *request.mutable_create() = Create();
    *request.add_session() = session_;
    ASSERT_OK(keeper_->Restore(shard_.get(), request));
    const auto again = shard_->FindJob(name_, 3);
    EXPECT_EQ(again->stripes()->Snapshot(), before);
    // What the old life published is not known to this one; 2 is the change since.
    const std::vector<FetchRecord> whole = Fetch(257, old);
    ASSERT_THAT(whole, SizeIs(kStripes));
    for (const FetchRecord& record : whole) {
      EXPECT_FALSE(record.changed());
      EXPECT_EQ(record.version(), 258u);
      EXPECT_EQ(record.applied_sequence(), 258u);
    }
    EXPECT_THAT(copy_.span(), Each(258.0f));
    Push();
    const std::vector<FetchRecord> changes = Fetch(258, epoch_);
    for (const FetchRecord& record : changes) {
      EXPECT_TRUE(record.changed());
      EXPECT_EQ(record.length(), 2 * kStripe);
    }
  }
}

TEST_F(ChangesPartTest, ACopyOfALaterVersionIsRefused) {
  const std::shared_ptr<ShardJob> job = Start();
  ShardCheckpoint content = job->checkpoint()->Cut();
  content.set_generation(4);
  std::vector<float> parameters(kStripe), state(kStripe);
  for (uint32_t i = 0; i < kStripes; ++i) {
    *content.add_stripe() = job->checkpoint()->CutStripe(i, parameters, state);
  }
  content.mutable_stripe(2)->set_public_version(1);
  const absl::Status restored = job->checkpoint()->Restore(content, nullptr, {});
  EXPECT_EQ(restored.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(restored.message()),
              ::testing::HasSubstr("generation 4 has a public copy of version 1"));
}

}  // namespace
}  // namespace monsoon
