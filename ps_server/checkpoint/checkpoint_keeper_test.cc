#include "ps_server/checkpoint/checkpoint_keeper.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/keeper_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CheckpointKeeperTest, WritesWhatIsOrderedAndTellsIt) {
  const auto job = MakeJob("a-1");
  EXPECT_EQ(StatusOf("a-1").generation(), 0u);
  Push();
  Write(job, 1);
  Push();
  EXPECT_EQ(StatusOf("a-1").generation(), 1u);
  EXPECT_GT(StatusOf("a-1").disk_bytes(), kStripes * kStripe * sizeof(float));
  EXPECT_EQ(StatusOf("a-1").checkpoint_error(), "");
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  EXPECT_EQ(loaded.content.generation(), 1u);
  EXPECT_EQ(loaded.content.shard_epoch(), kEpoch);
  EXPECT_EQ(loaded.content.context().downpour().steps(), 10u);
  EXPECT_EQ(loaded.parameters, std::vector<float>(kStripes * kStripe, 1.0f));
  EXPECT_THAT(loaded.state, IsEmpty());
  ASSERT_EQ(loaded.versions.size(), 1u);
  EXPECT_EQ(loaded.versions[0], std::vector<uint64_t>(kStripes, 1));
}

TEST_F(CheckpointKeeperTest, ARepeatedOrderIsDoneOnceAndAnOlderOneRefused) {
  const auto job = MakeJob("a-1");
  Write(job, 1);
  Write(job, 3);
  const uint64_t operations = storage_.operations();
  Write(job, 3);
  Write(job, 1);  // still there
  EXPECT_EQ(storage_.operations(), operations);
  EXPECT_THAT(keeper_->Order(job, OrderOf("a-1", 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("generation 2 was ordered after 3")));
}

TEST_F(CheckpointKeeperTest, KeepsTwoGenerations) {
  const auto job = MakeJob("a-1");
  for (uint64_t generation = 1; generation <= 5; ++generation) {
    Push();
    Write(job, generation);
    ASSERT_OK_AND_ASSIGN(const std::vector<GenerationParts> kept,
                         ListGenerations(&storage_, JobFolder(kStateDir, "a-1", 3)));
    ASSERT_EQ(kept.size(), std::min<uint64_t>(generation, 2));
    EXPECT_EQ(kept[0].generation, generation);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files,
                         storage_.List(JobFolder(kStateDir, "a-1", 3)));
    EXPECT_EQ(files.size(), 2 * kept.size());
  }
}

// The newest good generation stays whatever fails, the error is told, and repeating
// the order writes it once the disk is well.
TEST_F(CheckpointKeeperTest, AFullDiskIsToldAndTheOrderCanBeRepeated) {
  const auto job = MakeJob("a-1");
  Push();
  Write(job, 1);
  const uint64_t before = storage_.operations();
  Push();
  Write(job, 2);
  const uint64_t steps = storage_.operations() - before;
  ASSERT_GT(steps, 4u);
  uint64_t generation = 2;
  for (uint64_t step = 0; step < steps; ++step) {
    SCOPED_TRACE(step);
    Push();
    ++generation;
    storage_.FailAfter(step + 1, absl::ResourceExhaustedError("No space left on device"));
    Write(job, generation);
    storage_.ClearFailure();
    const ShardJobStatus failed = StatusOf("a-1");
    ASSERT_OK_AND_ASSIGN(LoadedCheckpoint loaded, Load("a-1"));
    // Files of an older generation may be what could not be removed, and a part may be
    // there whose last step failed.
    EXPECT_GE(loaded.content.generation(), generation - 1);
    if (failed.generation() != generation) {
      EXPECT_EQ(failed.generation(), generation - 1);
      EXPECT_THAT(failed.checkpoint_error(), HasSubstr("No space left"));
    }
    Write(job, generation);
    EXPECT_EQ(StatusOf("a-1").generation(), generation);
    EXPECT_EQ(StatusOf("a-1").checkpoint_error(), "");
    ASSERT_OK_AND_ASSIGN(loaded, Load("a-1"));
    EXPECT_EQ(loaded.parameters[0], static_cast<float>(sequence_));
  }
}

TEST_F(CheckpointKeeperTest, AnotherLifeOfTheShardPutsNothingInPlace) {
  const auto job = MakeJob("a-1");
  Write(job, 1);
  owner_ = absl::FailedPreconditionError("epoch is 8, not 7");
  Write(job, 2);
  EXPECT_EQ(StatusOf("a-1").generation(), 1u);
  EXPECT_THAT(StatusOf("a-1").checkpoint_error(), HasSubstr("epoch is 8, not 7"));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  EXPECT_EQ(loaded.content.generation(), 1u);
}

TEST_F(CheckpointKeeperTest, EachLifeNotesOnceThatItHasWrittenAPart) {
  std::shared_ptr<ShardJob> job = MakeJob("a-1");
  storage_.FailAfter(1, absl::ResourceExhaustedError("No space left on device"));
  Write(job, 1);
  EXPECT_EQ(notes_, 0) << "nothing was written";
  storage_.ClearFailure();
  note_ = absl::UnavailableError("Input/output error");
  Write(job, 1);
  EXPECT_EQ(StatusOf("a-1").generation(), 1u);
  EXPECT_EQ(notes_, 1);
  note_ = absl::OkStatus();
  Write(job, 2);
  Write(job, 3);
  EXPECT_EQ(notes_, 2);
  job.reset();  // it must not outlive its shard
  Restart();
  Write(MakeJob("a-2"), 1);
  EXPECT_EQ(notes_, 3);
}

TEST_F(CheckpointKeeperTest, DeletedJobsLeaveNothing) {
  const auto job = MakeJob("a-1");
  Write(job, 1);
  Write(job, 2);
  ASSERT_OK(keeper_->Delete("a-1", 3));
  EXPECT_THAT(Load("a-1"), StatusIs(absl::StatusCode::kNotFound, _));
  ASSERT_OK(keeper_->Delete("a-1", 3));
  ASSERT_OK(keeper_->Delete("never", 1));
}

TEST_F(CheckpointKeeperTest, FlushWritesWhatIsNewerAndOnlyThat) {
  const auto unordered = MakeJob("c-1");
  Push();
  const auto same = MakeJob("b-1");
  Push();
  Write(same, 4);
  const auto job = MakeJob("a-1");
  Push();
  Write(job, 1);
  Push();
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_EQ(StatusOf("a-1").generation(), 2u);
  EXPECT_EQ(StatusOf("b-1").generation(), 4u);
  EXPECT_EQ(StatusOf("c-1").generation(), 0u);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  EXPECT_EQ(loaded.content.context().reason(), "the server stops");
  EXPECT_EQ(loaded.parameters[0], 2.0f);
}

TEST_F(CheckpointKeeperTest, FlushNamesWhatItCouldNotWrite) {
  const auto job = MakeJob("a-1");
  Write(job, 1);
  Push();
  storage_.FailAfter(1, absl::ResourceExhaustedError("No space left on device"));
  const absl::Status status = keeper_->Flush(kPatience);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("a-1"), HasSubstr("newest on the disk: 1"),
                               HasSubstr("No space left")));
}

TEST_F(CheckpointKeeperTest, OldJobsOfEarlierLivesGoTheOldestFirst) {
  MakeKeeper(/*keep_ended_jobs=*/2);
  for (const char* name : {"a-1", "a-2", "a-3", "a-4"}) {
    Write(MakeJob(name), 1);
  }
  // None of them goes while it is in memory.
  for (const char* name : {"a-1", "a-2", "a-3", "a-4"}) {
    EXPECT_OK(Load(name));
  }
  MakeKeeper(/*keep_ended_jobs=*/2);
  ASSERT_OK(keeper_->Order(MakeJob("b-1"), FirstOrderOf("b-1", {})));
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  EXPECT_THAT(Load("a-1"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(Load("a-2"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_OK(Load("a-3"));
  EXPECT_OK(Load("a-4"));
  EXPECT_OK(Load("b-1"));
}

// A life that has just begun has none of them in memory; those that the coordinator has
// are about to be restored, or are what `submit --resume` goes on from.
TEST_F(CheckpointKeeperTest, JobsThatTheCoordinatorHasStayAfterARestart) {
  for (const char* name : {"a-1", "a-2", "a-3", "a-4"}) {
    Write(MakeJob(name), 1);
  }
  Restart();
  MakeKeeper(/*keep_ended_jobs=*/1);
  ASSERT_OK(keeper_->Order(MakeJob("b-1"), FirstOrderOf("b-1", {"a-1", "a-3"})));
  ASSERT_TRUE(keeper_->AwaitIdle(kPatience));
  EXPECT_OK(Load("a-1"));
  EXPECT_THAT(Load("a-2"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_OK(Load("a-3"));
  // The one that is kept of those that nobody has, as many as before the restart.
  EXPECT_OK(Load("a-4"));
}

TEST_F(CheckpointKeeperTest, NothingGoesBeforeTheCoordinatorSaysWhatItHas) {
  Write(MakeJob("a-1"), 1);
  Restart();
  MakeKeeper(/*keep_ended_jobs=*/0);
  Write(MakeJob("b-1"), 1);
  EXPECT_OK(Load("a-1"));
}

// Every stripe of a cut is as of one moment: with pushes of one, its floats are its
// version, and the window agrees.
TEST_F(CheckpointKeeperTest, StripesAreNeverTornWhileTheJobTrains) {
  const auto job = MakeJob("a-1");
  std::atomic<bool> over{false};
  std::jthread trainer([&] {
    while (!over) {
      Push();
    }
  });
  for (uint64_t generation = 1; generation <= 40; ++generation) {
    Write(job, generation);
    ASSERT_EQ(StatusOf("a-1").generation(), generation) << StatusOf("a-1").checkpoint_error();
    ASSERT_OK_AND_ASSIGN(const std::vector<GenerationParts> kept,
                         ListGenerations(&storage_, JobFolder(kStateDir, "a-1", 3)));
    ASSERT_OK_AND_ASSIGN(const auto part, PartReader::Open(&storage_, kept[0].manifest[0]));
    std::vector<float> parameters(kStripes * kStripe);
    ASSERT_OK(part->ReadAll(parameters, {}));
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      const StripeRecord& record = part->content().stripe(static_cast<int>(stripe));
      EXPECT_EQ(record.session(0).last(), record.version());
      for (size_t i = 0; i < kStripe; ++i) {
        ASSERT_EQ(parameters[stripe * kStripe + i], static_cast<float>(record.version()));
      }
    }
  }
  over = true;
}

}  // namespace
}  // namespace monsoon
