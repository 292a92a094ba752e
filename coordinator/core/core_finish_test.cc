// A program ends its job (NextWorkRequest.end_job).
#include "coordinator/core/core_batch_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreBatchTest;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

class CoreFinishTest : public CoreBatchTest {
 protected:
  void StartBoth() {
    Start(h_.Plan(50));
    h_.Join(1);
    ASSERT_OK(h_.Ask(0));
    ASSERT_OK(h_.Ask(1));
  }
  absl::StatusOr<NextWorkReply> End(uint32_t worker) {
    NextWorkRequest request;
    *request.mutable_session() = h_.session_[worker];
    request.set_request(++h_.request_[worker]);
    request.set_end_job(true);
    request.mutable_stats()->set_steps(30);
    h_.held_[worker].clear();
    return h_.core().NextWork(request, h_.now());
  }
  void ExpectSuccess() {
    Push(14);
    h_.Pass(absl::Seconds(5), {1});
    EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Describe().DebugString();
    EXPECT_EQ(h_.Reason(), "ended by worker/0 after 0.00 epochs, 30 steps");
    EXPECT_GT(Durability().generation(), 0u) << "of what the job has ended with";
  }
};

TEST_F(CoreFinishTest, TheJobSucceedsAndSaysWhoEndedIt) {
  StartBoth();
  ASSERT_OK(End(0));
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_EQ(h_.Describe().data().blocks_released(), 0u);
  h_.TrainToTheEnd(1);
  h_.TrainToTheEnd(0);
  ExpectSuccess();
}

TEST_F(CoreFinishTest, ItHoldsForTheNextLifeOfTheCoordinator) {
  StartBoth();
  ASSERT_OK(End(0));
  h_.RestartCoordinator(h_.updates_.size());  // the disk has whole calls
  h_.Poll();
  h_.Settle();
  h_.Beat(0);
  h_.Beat(1);
  h_.TrainToTheEnd(1);
  h_.TrainToTheEnd(0);
  ExpectSuccess();
}

TEST_F(CoreFinishTest, WhoHasEndedItMayDie) {
  StartBoth();
  ASSERT_OK(End(0));
  h_.Pass(absl::Seconds(5), {1});
  EXPECT_EQ(h_.State(), FINISHING) << "the other has its blocks";
  h_.TrainToTheEnd(1);
  ExpectSuccess();
}

TEST_F(CoreFinishTest, ABatchIsNotAProgramsToEnd) {
  StartBatch();
  EXPECT_THAT(End(0).status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("worker/0 ends the training of a batch job")));
  EXPECT_EQ(h_.State(), RUNNING);
}

}  // namespace
}  // namespace monsoon
