// What is remembered of sessions that have left, and what a shard is told of them.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

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

}  // namespace
}  // namespace monsoon
