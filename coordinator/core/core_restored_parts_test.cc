// Which part of a slice will do for a shard that was started anew.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreRestoresTest;
using ::testing::EndsWith;

TEST_F(CoreRestoresTest, AnOlderPartThanTheOneBeforeWillNotDo) {
  StartWithAGeneration();
  for (uint64_t generation = 2; generation <= 3; ++generation) {
    Push(5);
    ASSERT_OK(Ask());
    Pass(1);
    ASSERT_EQ(Durability().generation(), generation);
  }
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 3u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 2u);
}

// It goes on from the one before, and keeps that beside the next.
TEST_F(CoreRestoresTest, AfterADamagedPartTheOneThatItWentOnFromWillDo) {
  StartWithAGeneration();
  for (uint64_t generation = 2; generation <= 3; ++generation) {
    Push(5);
    ASSERT_OK(Ask());
    Pass(1);
  }
  h_.shard(1).generation["j-1"] = 2;  // its part of the third is damaged
  h_.Restart(1);
  Pass(1);
  ASSERT_EQ(h_.shard(1).restored.generation(), 2u);
  Push(5);
  ASSERT_OK(Ask());
  Pass(1);
  ASSERT_EQ(Durability().generation(), 4u);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 4u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 2u);

  // From then on all is as before.
  Push(5);
  ASSERT_OK(Ask());
  Pass(1);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 5u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 4u);
}

// What it has gone on from is told by its answer, which may be lost: what it writes meanwhile
// counts as on its disk when that is known, and not before.
TEST_F(CoreRestoresTest, AGenerationIsHeldWhenItIsKnownWhatAShardWentOnFrom) {
  StartWithAGeneration();
  for (uint64_t generation = 2; generation <= 3; ++generation) {
    Push(5);
    ASSERT_OK(Ask());
    Pass(1);
  }
  h_.shard(1).disk_error = "No space left on device";
  Push(5);
  ASSERT_OK(Ask());
  Pass(1);
  ASSERT_EQ(Durability().generation(), 3u);
  h_.shard(1).disk_error.clear();
  h_.shard(1).generation["j-1"] = 2;  // its part of the third is damaged
  h_.Restart(1);
  const ShardCommand restore = PollAndTakeRestore();
  ASSERT_OK(h_.Answer(restore).status);
  h_.core().OnCommand(restore, {.status = absl::UnavailableError("connection reset")}, h_.now());
  for (int poll = 0; poll < 2; ++poll) {
    h_.Poll();
    h_.Settle();
  }
  EXPECT_EQ(Durability().generation(), 3u);
  Pass(3);
  ASSERT_EQ(h_.shard(1).restored.generation(), 2u);
  ASSERT_EQ(Durability().generation(), 4u);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 4u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 2u);
}

// Nobody pushes any more, and what the damaged one has cost is told already.
TEST_F(CoreRestoresTest, WhatAShardWentOnFromWillDoForAJobThatEnds) {
  StartWithAGeneration();
  Push(5);
  ASSERT_OK(Ask());
  Pass(1);
  ASSERT_EQ(Durability().generation(), 2u);
  h_.shard(1).generation["j-1"] = 1;
  h_.Restart(1);
  Pass(1);
  ASSERT_EQ(h_.shard(1).restored.generation(), 1u);
  h_.shard(1).disk_error = "No space left on device";
  ASSERT_OK(h_.core().Cancel("j-1", h_.now()));
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 2u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 1u);
}

TEST_F(CoreRestoresTest, PartsThatWerePassedOverAreNamed) {
  StartWithAGeneration();
  h_.shard(1).skipped = {"ps-1-of-2.g2.e1000: truncated"};
  h_.Restart(1);
  Pass(1);
  EXPECT_THAT(EventText("shard_restored"),
              EndsWith("; passed over: ps-1-of-2.g2.e1000: truncated"));
}

}  // namespace
}  // namespace monsoon
