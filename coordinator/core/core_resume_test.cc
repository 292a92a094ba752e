// Jobs that go on from a checkpoint.
#include "common/model/parameter_layout.h"
#include "coordinator/core/core_checkpoints_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreCheckpointsTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CoreResumeTest : public CoreCheckpointsTest {
 protected:
  // Of the job itself and of the one that it resumes.
  JobPlan Plan(double epochs) {
    JobPlan plan = h_.Plan(epochs);
    plan.job.mutable_model()->add_input_shape(3);
    plan.job.mutable_model()->add_layer()->mutable_dense()->set_units(2);
    plan.layout_hash = ParameterLayout::Create(plan.job.model())->Hash();
    return plan;
  }
  // One epoch of 4 blocks, and a block of the next one.
  ResumePoint Point() {
    ResumePoint point;
    point.set_source_job("i-7");
    point.set_generation(9);
    CheckpointContext& context = *point.mutable_context();
    *context.mutable_job() = Plan(2).job;
    context.set_elapsed_s(100);
    DownpourProgress& progress = *context.mutable_downpour();
    progress.set_steps(18);
    progress.set_epochs_done(1);
    EpochCursor* const cursor = progress.add_epoch();
    cursor->set_epoch(1);
    cursor->set_blocks(4);
    cursor->add_done()->set_first(1);
    cursor->mutable_done(0)->set_end(2);
    progress.set_blocks_done(5);
    progress.set_examples_done(90);
    return point;
  }
  absl::Status Submit(const JobPlan& plan, const ResumePoint& point, bool init = true) {
    return h_.core().Submit(plan, {.init = init, .resume = point}, h_.now()).status();
  }
  // Until a replica is at it.
  void Begin(const JobPlan& plan, const ResumePoint& point) {
    h_.Submit(plan, /*init=*/true, point);
    h_.Poll();
    h_.Settle();
    ASSERT_EQ(h_.State(), INITIALIZING);
    ASSERT_OK(h_.core().Start("j-1", h_.now()));
    h_.Settle();
    h_.Join(0);
  }
};

TEST_F(CoreResumeTest, GoesOnWhereTheCheckpointWasMade) {
  h_.KeepState();
  JobPlan plan = Plan(2);
  plan.job.mutable_downpour()->mutable_warmstart()->set_steps(1000);
  Begin(plan, Point());
  EXPECT_EQ(h_.State(), RUNNING) << "no second warmstart";
  EXPECT_EQ(EventText("resumed"),
            "from i-7, generation 9: 1 epochs and 5 blocks are done, 18 steps");
  JobDescription description = h_.Describe();
  EXPECT_EQ(description.progress().step(), 18u);
  EXPECT_EQ(description.progress().examples(), 90u);
  EXPECT_EQ(description.data().blocks_done(), 5u);
  EXPECT_EQ(description.progress().epoch(), 90.0 / 70);
  ReplicaStats stats;
  stats.set_steps(3);
  ASSERT_OK(h_.Ask(0, stats));
  EXPECT_EQ(h_.Describe().progress().step(), 21u);
  Pass(7);
  Train();
  Pass(2);
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Describe().data().blocks_done(), 8u);
  EXPECT_FALSE((h_.done_.contains({1, 1})));
  EXPECT_EQ(h_.done_.size(), 3u);
  // What is written of it goes on from there as well.
  EXPECT_TRUE(Context().final());
  EXPECT_EQ(Context().downpour().blocks_done(), 8u);
  EXPECT_EQ(Context().downpour().epochs_done(), 2u);
  EXPECT_EQ(Context().downpour().steps(), 21u);
  EXPECT_GT(Context().elapsed_s(), 106);
  EXPECT_LT(Context().elapsed_s(), 120);
}

TEST_F(CoreResumeTest, OtherBlocksRepeatTheEpochAndSayIt) {
  ResumePoint point = Point();
  point.mutable_context()->mutable_job()->set_block_examples(35);
  Begin(Plan(2), point);
  EXPECT_THAT(EventText("resumed"),
              AllOf(HasSubstr("1 epochs and 4 blocks are done"),
                    HasSubstr("blocks have 20 samples, and had 35; what was done after epoch 1 is "
                              "done again")));
  Train();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.done_.size(), 4u);
}

TEST_F(CoreResumeTest, NothingMayBeLeft) {
  Begin(Plan(1), Point());
  Train();
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.done_.size(), 0u);
  EXPECT_EQ(h_.Describe().data().blocks_done(), 5u);
}

TEST_F(CoreResumeTest, ABatchJobTakesTheParametersAlone) {
  JobPlan plan = Plan(1);
  plan.job.clear_downpour();
  plan.job.clear_stop();
  plan.job.mutable_sandblaster()->set_chunk_examples(10);
  plan.job.mutable_sandblaster()->set_chunks_per_contribution(1);
  Begin(plan, Point());
  EXPECT_EQ(EventText("resumed"), "from i-7, generation 9: its parameters alone");
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.Describe().progress().step(), 0u);
}

TEST_F(CoreResumeTest, AChainGoesThroughDownpourWithNothingLeft) {
  JobPlan plan = Plan(1);
  plan.job.mutable_sandblaster()->set_chunk_examples(10);
  plan.job.mutable_sandblaster()->set_chunks_per_contribution(1);
  Begin(plan, Point());
  for (int i = 0; i < 5 && !h_.core().BatchRuns({"j-1"}); ++i) {
    ASSERT_OK(h_.Ask(0));
  }
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.done_.size(), 0u);
  EXPECT_THAT(h_.Events(), Contains("sandblaster"));
}

TEST_F(CoreResumeTest, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(
      Submit(Plan(1), Point(), /*init=*/false),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("job \"j\" cannot go on from i-7, generation 9: init is not set")));
  JobPlan wide = Plan(1);
  wide.layout_hash ^= 1;
  EXPECT_THAT(Submit(wide, Point()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another layout")));
  ResumePoint empty = Point();
  empty.mutable_context()->clear_job();
  EXPECT_THAT(Submit(Plan(1), empty),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the checkpoint's model")));
  ResumePoint garbage = Point();
  garbage.mutable_context()->mutable_downpour()->mutable_epoch(0)->mutable_done(0)->set_end(9);
  EXPECT_THAT(Submit(Plan(1), garbage),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epoch 1 has blocks [1, 9)")));
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 0);
}

TEST_F(CoreResumeTest, AJobThatResumesNothingSaysNothing) {
  Start();
  EXPECT_THAT(h_.Events(), Not(Contains("resumed")));
}

TEST_F(CoreResumeTest, AShardLostBeforeTheTrainingFailsIt) {
  // Its parameters were a client's: nobody could write them again.
  h_.Submit(Plan(2), /*init=*/true, Point());
  h_.Poll();
  h_.Settle();
  ASSERT_OK(h_.core().Start("j-1", h_.now()));
  h_.Restart(1);
  Pass(2);
  EXPECT_EQ(h_.State(), FAILED);
}

}  // namespace
}  // namespace monsoon
