// A program that writes a joined job's initial parameters and does not reach a shard, though the
// coordinator does.
#include "coordinator/core/core_enter_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CoreEnterCutTest : public CoreEnterTest {
 protected:
  // Its call, with the shard that does not answer it.
  EnterReply EnterCut(uint32_t program, uint32_t shard) {
    const JobPlan plan = Joined("gpt");
    EnterRequest request = RequestOf(program, plan);
    request.set_silent_shard(shard);
    const absl::StatusOr<EnterReply> reply = h_.core().Enter(request, plan, h_.now());
    EXPECT_OK(reply);
    h_.Settle();
    return reply.ok() ? *reply : EnterReply();
  }
  // A second of this.
  void PassCut(uint32_t program, uint32_t shard) {
    for (int i = 0; i < 2; ++i) {
      h_.Pass(absl::Milliseconds(500));
      EnterCut(program, shard);
    }
  }
  std::string LastText(const std::string& kind) {
    std::string text;
    const JobDescription job = h_.Describe();
    for (const auto& event : job.event()) {
      text = event.kind() == kind ? event.text() : text;
    }
    return text;
  }
};

TEST_F(CoreEnterCutTest, AnotherThatWaitsWritesInItsPlace) {
  Make(1);
  EXPECT_EQ(EnterCut(1, 1).part(), EnterReply::INITIALIZE);
  PassCut(1, 1);
  PassCut(1, 1);
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT) << "for lost_after_ms, it may come through";
  EXPECT_EQ(h_.Reason(),
            "waits for the initial parameters: pid 201 on attic has been writing them for 2.0 s, "
            "and has not reached ps/1 at unix:ps1 for 2 s");
  PassCut(1, 1);
  EXPECT_EQ(EnterCut(1, 1).writer(), 1u) << "nobody else has asked";
  const EnterReply next = EnterCut(2, 1);
  EXPECT_EQ(next.part(), EnterReply::INITIALIZE);
  EXPECT_EQ(next.writer(), 2u);
  EXPECT_EQ(
      LastText("initializing"),
      "pid 202 on attic writes the initial parameters, as number 2 who does: pid 201 on attic "
      "has not reached ps/1 at unix:ps1 for 3 s");
  EXPECT_EQ(EnterCut(1, 1).part(), EnterReply::WAIT);
  EXPECT_THAT(h_.Reason(), HasSubstr("pid 202 on attic has been writing them for 0.0 s, and has "
                                     "not reached ps/1 at unix:ps1 for 0 s"));
  // It is cut off, too: it has as long, and the turn goes back.
  PassCut(2, 1);
  PassCut(2, 1);
  EXPECT_EQ(EnterCut(1, 1).part(), EnterReply::WAIT);
  PassCut(2, 1);
  PassCut(2, 1);
  EXPECT_EQ(Enter(1).writer(), 3u);
  EXPECT_EQ(Enter(1, "gpt", 3).part(), EnterReply::TRAIN);
}

TEST_F(CoreEnterCutTest, OneThatGetsThroughKeepsItsPart) {
  Make(1);
  for (int i = 0; i < 3; ++i) {
    PassCut(1, 1);
    PassCut(1, 1);
    Enter(1);  // it has answered
    EXPECT_THAT(h_.Reason(), Not(HasSubstr("ps/1")));
  }
  for (int i = 0; i < 3; ++i) {
    PassCut(1, i % 2);  // now this one, now that one
    PassCut(1, i % 2);
  }
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  PassCut(1, 7);
  PassCut(1, 7);
  PassCut(1, 7);
  PassCut(1, 7);
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT) << "no such shard";
}

TEST_F(CoreEnterCutTest, AShardThatIsAwayForAllSaysNothingOfTheWriter) {
  Make(1);
  h_.shard(1).silent = true;
  for (int i = 0; i < 6; ++i) {
    PassCut(1, 1);
  }
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  h_.shard(1).silent = false;
  h_.Pass(absl::Milliseconds(500));
  EnterCut(1, 1);
  h_.Pass(absl::Milliseconds(500));
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  EXPECT_THAT(h_.Events(), Contains("initializing"));
}

}  // namespace
}  // namespace monsoon
