// Parts of jobs with rounds.
#include <memory>
#include <string>

#include "common/testing/status_matchers.h"
#include "proto/downpour.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/shard/round.h"

namespace monsoon {
namespace {

TEST_F(CheckpointKeeperTest, APartHoldsTheRoundThatIsOpen) {
  CreateShardJobRequest create = MakeCreate("rounds-1");
  create.mutable_rounds();
  ASSERT_OK(shard_->CreateJob(create));
  session_.set_job("rounds-1");
  session_.set_job_term(3);
  session_.set_incarnation(1);
  for (const uint32_t worker : {1u, 0u}) {
    session_.set_worker(worker);
    ASSERT_OK(shard_->OpenSession(session_));
  }
  Push();  // of worker/0; worker/1 is waited for
  const std::shared_ptr<ShardJob> job = shard_->FindJob("rounds-1", 3);
  Write(job, 1);
  const absl::StatusOr<LoadedCheckpoint> loaded = Load("rounds-1");
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->content.state_slots(), Round::kSlots);  // SGD has no state of its own
  EXPECT_EQ(loaded->in_rounds, 1u);

  const std::string before = job->stripes()->Snapshot();
  ShardCheckpoint content = job->checkpoint()->Cut();
  EXPECT_EQ(content.state_slots(), Round::kSlots);
  // With both in, the mean is what the first one moved.
  session_.set_worker(1);
  sequence_ = 0;
  Push();
  EXPECT_NE(job->stripes()->Snapshot(), before);
  EXPECT_EQ(job->GetStatus().version_min(), 1u);
}

}  // namespace
}  // namespace monsoon
