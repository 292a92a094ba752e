// A worker that a shard does not answer, though the coordinator and others reach both.
#include "coordinator/core/core_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CoreCutWorkersTest : public ::testing::Test {
 protected:
  void Start(uint32_t workers) {
    h_.Submit(h_.Plan(/*epochs=*/1));
    h_.Poll();
    h_.Settle();
    for (uint32_t worker = 0; worker < workers; ++worker) {
      h_.Join(worker);
      workers_.insert(worker);
    }
    ASSERT_EQ(h_.State(), RUNNING);
  }
  void Pass(double seconds) { h_.Pass(absl::Seconds(seconds), workers_); }
  std::string EventText(const std::string& kind) {
    const JobDescription job = h_.Describe();
    for (const auto& event : job.event()) {
      if (event.kind() == kind) {
        return event.text();
      }
    }
    return "";
  }

  CoreHarness h_{2, 3};
  std::set<uint32_t> workers_;
};

TEST_F(CoreCutWorkersTest, LosesItsSessionToOthersThatReachTheShard) {
  Start(2);
  ASSERT_OK(h_.Ask(0));
  ASSERT_OK(h_.Ask(1));  // all four blocks are held
  h_.silent_shard_[1] = 0;
  Pass(2.5);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("waits for worker/1, which has not reached ps/0 at "
                                           "unix:ps0 for 2 s")));
  EXPECT_TRUE(h_.Ask(0)->has_wait());
  Pass(2);
  EXPECT_THAT(h_.Events(), Contains("worker_cut worker/1"));
  EXPECT_THAT(EventText("worker_cut"), HasSubstr("ps/0 at unix:ps0"));
  EXPECT_EQ(h_.Describe().data().blocks_released(), 2u);
  EXPECT_EQ(h_.Reason(), "");
  // It is not let in again at once, to take blocks that it cannot finish.
  Pass(5);
  EXPECT_THAT(h_.Events(), Not(Contains("worker_rejoined worker/1")));
  h_.TrainToTheEnd(0);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoreCutWorkersTest, IsLetInAgainAfterAWhile) {
  Start(2);
  h_.silent_shard_[1] = 0;
  Pass(5);
  EXPECT_THAT(h_.Events(), Contains("worker_cut worker/1"));
  h_.silent_shard_.clear();
  Pass(20);
  EXPECT_THAT(h_.Events(), Contains("worker_rejoined worker/1"));
}

TEST_F(CoreCutWorkersTest, ASlowOneKeepsItsSession) {
  Start(2);
  for (int i = 0; i < 6; ++i) {
    h_.silent_shard_[1] = 0;
    Pass(2);
    h_.silent_shard_.clear();  // it has answered
    Pass(0.5);
  }
  EXPECT_THAT(h_.Events(), Not(Contains("worker_cut worker/1")));
}

TEST_F(CoreCutWorkersTest, NobodyLosesItWhereNobodyReachesTheShard) {
  Start(2);
  h_.silent_shard_ = {{0, 1}, {1, 1}};
  Pass(13);
  EXPECT_THAT(h_.Events(), Not(Contains(HasSubstr("worker_cut"))));
  EXPECT_THAT(h_.Reason(), HasSubstr("which has not reached ps/1 at unix:ps1 for 1"));
}

TEST_F(CoreCutWorkersTest, AShardThatIsAwayForAllSaysNothingOfAWorker) {
  Start(2);
  h_.shard(0).alive = false;
  h_.silent_shard_[1] = 0;
  Pass(10);
  EXPECT_THAT(h_.Events(), Not(Contains("worker_cut worker/1")));
}

}  // namespace
}  // namespace monsoon
