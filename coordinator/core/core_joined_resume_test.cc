// Joined jobs that go on from a checkpoint.
#include <string>

#include "common/model/parameter_layout.h"
#include "coordinator/core/core_enter_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST_F(CoreEnterTest, AResumedJobIsWrittenByItsClientAndThenEntered) {
  h_.KeepState();
  JobPlan plan = Joined("gpt", 2);
  plan.layout_hash = ParameterLayout::Create(plan.job.model())->Hash();
  EXPECT_THAT(h_.core().Submit(plan, {.init = true}, h_.now()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("submit --resume")));
  ResumePoint point;
  point.set_source_job("gpt-7");
  point.set_generation(9);
  *point.mutable_context()->mutable_job() = plan.job;
  point.mutable_context()->mutable_downpour()->set_steps(18);
  point.mutable_context()->mutable_downpour()->set_epochs_done(1);
  h_.Submit(plan, /*init=*/true, point);
  h_.Poll();
  h_.Settle();
  const std::string job = "gpt-1";
  EXPECT_EQ(h_.State(job), INITIALIZING);
  // No program is to write what the client writes; nobody trains before.
  const auto enter = [&](uint32_t program) {
    const absl::StatusOr<EnterReply> reply =
        h_.core().Enter(RequestOf(program, plan), plan, h_.now());
    EXPECT_OK(reply);
    h_.Settle();
    return reply.ok() ? *reply : EnterReply();
  };
  EXPECT_EQ(enter(1).part(), EnterReply::WAIT);
  EXPECT_THAT(enter(1).reason(), HasSubstr("waits for its client"));
  EXPECT_OK(h_.core().Locate(job, h_.now()).status());
  ASSERT_OK(h_.core().Start(job, h_.now()));
  for (int round = 0; round < 2; ++round) {  // its first generation is ordered, and held
    h_.Settle();
    h_.Poll();
  }
  EXPECT_EQ(enter(1).part(), EnterReply::TRAIN);
  EXPECT_EQ(h_.Describe(job).progress().step(), 18u);
}

TEST_F(CoreEnterTest, AResumedJobThatLosesItsSlicesIsNotBegunAnew) {
  h_.KeepState();
  JobPlan plan = Joined("gpt", 2);
  plan.layout_hash = ParameterLayout::Create(plan.job.model())->Hash();
  ResumePoint point;
  *point.mutable_context()->mutable_job() = plan.job;
  h_.Submit(plan, /*init=*/true, point);
  h_.Poll();
  h_.Settle();
  ASSERT_EQ(h_.State("gpt-1"), INITIALIZING);
  h_.Restart(1);  // which has written nothing yet
  h_.Pass(absl::Seconds(1), {});
  EXPECT_EQ(h_.State("gpt-1"), FAILED) << h_.Reason();
}

}  // namespace
}  // namespace monsoon
