// What is remembered of sessions that have left, and what a shard is told of them and of what its
// folder must have.
#include "coordinator/core/core_enter_fixture.h"
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::monsoon::testing::CoreRestoresTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeftSessionsTest : public CoreRestoresTest {
 protected:
  // What ps/1 is told when it is started anew: "worker#incarnation: pushes".
  std::vector<std::string> Told() {
    h_.Restart(1);
    Pass(1);
    std::vector<std::string> told;
    for (const LeftSession& left : h_.shard(1).restore.left()) {
      told.push_back(absl::StrCat(left.worker(), "#", left.incarnation(), ": ", left.pushes()));
    }
    return told;
  }
  void WriteAGeneration() {
    Push(5);
    ASSERT_OK(Ask());
    Pass(1);
  }
};

TEST_F(LeftSessionsTest, TheyAreToldUntilTheOlderGenerationHasThem) {
  StartWithAGeneration();
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  WriteAGeneration();  // 2
  h_.TellDurable(1, {2, 2}, 17);
  h_.Leave(1);
  h_.Settle();
  EXPECT_THAT(Told(), ElementsAre("1#1: 17"));
  WriteAGeneration();  // 3: a shard may fall back to 2, which has it
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(LeftSessionsTest, TheyAreToldAsLongAsAShardMayGoOnFromAnOlderPart) {
  StartWithAGeneration();
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  WriteAGeneration();  // 2
  h_.TellDurable(1, {2, 2}, 17);
  h_.Leave(1);
  h_.Settle();
  h_.shard(1).generation["j-1"] = 1;  // its part of the second is damaged
  h_.Restart(1);
  Pass(1);
  ASSERT_EQ(h_.shard(1).restored.generation(), 1u);
  WriteAGeneration();  // 3, beside which ps/1 keeps 1
  EXPECT_THAT(Told(), ElementsAre("1#1: 17"));
  WriteAGeneration();
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(LeftSessionsTest, TheNextLifeOfTheCoordinatorKnowsThem) {
  StartWithAGeneration();
  h_.Join(1);
  ASSERT_OK(h_.Ask(1));
  WriteAGeneration();
  h_.TellDurable(1, {2, 2}, 16);
  h_.TellDurable(1, {2, 2}, 17);
  h_.Leave(1);
  h_.Settle();
  h_.RestartCoordinator();
  h_.Poll();
  h_.Settle();
  EXPECT_THAT(Told(), ElementsAre("1#1: 17"));
}

TEST_F(LeftSessionsTest, WhatHasPushedNothingIsNotRemembered) {
  StartWithAGeneration();
  h_.Join(1);
  h_.TellDurable(1, {1, 1}, 0);
  h_.Leave(1);
  h_.Settle();
  EXPECT_THAT(Told(), IsEmpty());
}

// ps/1 has written generation 2 and told of it, ps/0 has not: `held` is 1.
class OneShardHasWrittenTest : public LeftSessionsTest {
 protected:
  void SetUp() override {
    StartWithAGeneration();
    h_.Join(1);
    h_.shard(0).disk_error = "No space left on device";
    WriteAGeneration();
    ASSERT_EQ(Durability().generation(), 1u);
    ASSERT_EQ(h_.shard(1).generation["j-1"], 2u);
  }
};

// Workers that are there send again what an older copy of its folder lacks; but whether they are
// there nobody knows before it is too late.
TEST_F(OneShardHasWrittenTest, AFolderMustHaveWhatItsShardHasTold) {
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 2u);
  h_.Restart(0);
  Pass(1);
  EXPECT_EQ(h_.shard(0).restore.held(), 1u) << "of another shard";
}

TEST_F(OneShardHasWrittenTest, TheNextLifeOfTheCoordinatorKnowsThat) {
  h_.Leave(1);
  h_.Settle();
  h_.RestartCoordinator();
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restore.held(), 2u);
}

// Nobody has pushed.
class FirstGenerationTest : public CoreEnterTest {};

TEST_F(FirstGenerationTest, InitialParametersThatAreGoneAreNotWaitedFor) {
  h_.KeepState();
  h_.shard(1).disk_is_slow = true;
  Write(1);
  h_.Poll();
  h_.Settle();
  ASSERT_EQ(h_.shard(0).generation["gpt-1"], 1u);
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.shard(0).restore.create().job(), "gpt-1");
  EXPECT_EQ(h_.shard(0).restore.held(), 0u);
}

}  // namespace
}  // namespace monsoon
