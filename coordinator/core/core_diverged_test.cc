// Programs of which nothing is of use any more: the job goes on without them.
#include <string>

#include "coordinator/core/core_enter_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

class CoreDivergedTest : public CoreEnterTest {
 protected:
  absl::StatusOr<ReportFailureReply> Diverged(uint32_t program, const std::string& text) {
    ReportFailureRequest request;
    *request.mutable_session() = h_.session_[program];
    request.set_kind(ReportFailureRequest::PROGRAM_DIVERGED);
    request.set_message(text);
    return h_.core().ReportFailure(request, h_.now());
  }
  // As Begin(1), of a job that goes on without what is not finite.
  void BeginAndSkip() {
    JobPlan plan = Joined("gpt");
    plan.job.mutable_divergence()->set_action(DivergencePolicy::SKIP);
    EnterUntilItTrains(1, plan);
  }
};

TEST_F(CoreDivergedTest, AProgramThatDivergesAloneLeavesTheJobToOthers) {
  Begin(1);
  Join(1, "gpt-1");
  Join(2, "gpt-1");
  ASSERT_OK_AND_ASSIGN(const NextWorkReply first, h_.Ask(1));
  ASSERT_TRUE(first.has_train());
  ASSERT_OK_AND_ASSIGN(const ReportFailureReply reply, Diverged(1, "step 7: exp_avg of wte"));
  EXPECT_FALSE(reply.job_ends());
  h_.Settle();
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Reason(), "");
  EXPECT_THAT(h_.Events(), AllOf(Contains("worker_diverged worker/1"), Not(Contains("diverged"))));
  // It is there until it says goodbye, and gets no other session.
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  EXPECT_EQ(h_.Describe().data().blocks_released(),
            static_cast<uint64_t>(first.train().block_size()));
  h_.TrainToTheEnd(2);
  h_.Pass(absl::Seconds(1), {2});
  EXPECT_EQ(h_.State(), SUCCEEDED);
}

TEST_F(CoreDivergedTest, TheJobFailsWithItsLastProgram) {
  Begin(1);
  Join(1, "gpt-1");
  Join(2, "gpt-1");
  ASSERT_OK(Diverged(1, "step 7: exp_avg of wte"));
  h_.Settle();
  ASSERT_OK_AND_ASSIGN(const ReportFailureReply reply, Diverged(2, "worker/2 step 9: loss is nan"));
  EXPECT_TRUE(reply.job_ends());
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_EQ(h_.Reason(), "diverged: worker/2 step 9: loss is nan");
  EXPECT_THAT(h_.Events(), Contains("diverged worker/2"));
  ASSERT_OK_AND_ASSIGN(const ReportFailureReply late, Diverged(1, "again"));
  EXPECT_TRUE(late.job_ends());
}

TEST_F(CoreDivergedTest, OrWaitsForAnotherWhereDivergenceIsSkipped) {
  BeginAndSkip();
  Join(1, "gpt-1");
  ASSERT_OK(h_.Ask(1));
  ASSERT_OK_AND_ASSIGN(const ReportFailureReply reply, Diverged(1, "step 7: exp_avg of wte"));
  EXPECT_FALSE(reply.job_ends());
  h_.Pass(absl::Minutes(10));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(),
            "waits for a program to join: `ms.join(..., job=\"gpt\")`; the last that "
            "failed: worker/1: step 7: exp_avg of wte");
  // Who comes now has another number, and nobody's moments.
  Join(2, "gpt-1");
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Reason(), "");
  h_.TrainToTheEnd(2);
  h_.Pass(absl::Seconds(1), {2});
  EXPECT_EQ(h_.State(), SUCCEEDED);
}

}  // namespace
}  // namespace monsoon
