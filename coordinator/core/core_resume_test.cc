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
  for (int i = 0; i < 5 && !h_.core().batches().Runs({"j-1"}); ++i) {
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

// A job that has ended, on shards that hold it, and one that goes on from there.
class HeldResumeTest : public CoreResumeTest {
 protected:
  void SetUp() override {
    h_.KeepState();
    Start(Plan(1));
    Train();
    Pass(2);
    ASSERT_EQ(h_.State(), SUCCEEDED);
    const absl::StatusOr<JobLocation> location = h_.core().Locate("j-1", h_.now());
    ASSERT_OK(location);
    ASSERT_TRUE(location->has_held()) << location->not_held();
    held_ = location->held();
  }
  absl::Status SubmitHeld(const JobPlan& plan, const ResumePoint& held) {
    return h_.core()
        .Submit(plan, {.init = true, .resume = held, .resume_held = true}, h_.now())
        .status();
  }
  // Until its slices are being made.
  void BeginNext() { ASSERT_OK(SubmitHeld(Plan(2), held_)); }
  void ExpectNextRuns() {
    h_.Settle();
    h_.Join(0);
    EXPECT_EQ(h_.State("j-2"), RUNNING);
    EXPECT_EQ(h_.Describe("j-2").data().blocks_done(), 4u);
    Pass(2);
    EXPECT_GE(h_.Describe("j-2").durability().generation(), 1u) << "nobody can write them again";
  }
  static constexpr char kAgain[] =
      "no generation of it was written yet: `coordinator submit --resume=j-1` goes on from j-1 "
      "again";

  ResumePoint held_;
};

TEST_F(HeldResumeTest, ShardsTakeWhatTheyHoldAndNobodyWritesIt) {
  EXPECT_EQ(held_.generation(), h_.Describe().durability().generation());
  EXPECT_EQ(held_.context().downpour().epochs_done(), 1u);
  EXPECT_EQ(held_.context().job().batch_size(), 5u);
  BeginNext();
  const std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 2u);
  for (const ShardCommand& command : commands) {
    EXPECT_EQ(command.create.source().job(), "j-1");
    EXPECT_EQ(command.create.source().job_term(), command.job_term);
    EXPECT_TRUE(command.create.written_by_client());
    EXPECT_THAT(h_.core().Delete("j-1", h_.now()).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("the slices of j-2 are being made from those of j-1")));
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  EXPECT_EQ(h_.State("j-2"), PENDING) << "it waits for no client";
  EXPECT_THAT(h_.core().Start("j-2", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was not submitted with")));
  ExpectNextRuns();
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  Pass(2);
  EXPECT_EQ(h_.State("j-2"), RUNNING);
  EXPECT_FALSE(h_.shard(0).jobs.contains("j-1"));
}

TEST_F(HeldResumeTest, TheOldJobCanBeResumedAgain) {
  BeginNext();
  ExpectNextRuns();
  EXPECT_TRUE(h_.core().Locate("j-1", h_.now())->has_held());
  ASSERT_OK(SubmitHeld(Plan(2), held_));
  h_.Settle();
  EXPECT_EQ(h_.State("j-3"), PENDING);
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-3")) << "made ahead of the queue";
}

TEST_F(HeldResumeTest, OnlyWhatShardsStillHoldIsTaken) {
  ResumePoint other = held_;
  other.set_generation(held_.generation() - 1);
  EXPECT_THAT(SubmitHeld(Plan(2), other),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("hold generation ", held_.generation(), " of j-1"))));
  other.set_source_job("j-7");
  EXPECT_THAT(SubmitHeld(Plan(2), other),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("slices of j-7")));
  JobPlan plan = Plan(2);
  plan.max_stripe_bytes = 2048;
  EXPECT_THAT(SubmitHeld(plan, held_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("in stripes of another size")));
  // What the client says of it does not count.
  other = held_;
  other.mutable_context()->mutable_downpour()->set_epochs_done(0);
  ASSERT_OK(SubmitHeld(Plan(2), other));
  ExpectNextRuns();
  h_.Restart(1);
  h_.Poll();
  EXPECT_THAT(SubmitHeld(Plan(2), held_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not hold all slices")));
}

TEST_F(HeldResumeTest, ADeletedJobIsNotTaken) {
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  EXPECT_THAT(SubmitHeld(Plan(2), held_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("j-1 is being deleted")));
}

TEST_F(HeldResumeTest, AShardThatStartsAnewGetsTheSourceBackFirst) {
  BeginNext();
  const std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 2u);
  h_.Restart(1);  // with all that it had in memory
  h_.shard(1).restore_error = absl::UnavailableError("the disk is slow");
  for (const ShardCommand& command : commands) {
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  EXPECT_EQ(h_.State("j-2"), PENDING) << h_.Reason("j-2");
  Pass(2);
  EXPECT_EQ(h_.State("j-2"), PENDING) << h_.Reason("j-2");
  EXPECT_THAT(h_.Reason("j-2"), HasSubstr("its slices are made from those of j-1, which waits for "
                                          "ps/1 at "));
  EXPECT_FALSE(h_.shard(1).jobs.contains("j-2"));
  h_.shard(1).restore_error = absl::OkStatus();
  Pass(2);
  ExpectNextRuns();
}

TEST_F(HeldResumeTest, WithoutTheSourceItFailsByName) {
  BeginNext();
  h_.Restart(1);
  h_.shard(1).restore_error = absl::NotFoundError("no part of it is good enough");
  Pass(2);
  EXPECT_EQ(h_.State("j-2"), FAILED);
  EXPECT_THAT(h_.Reason("j-2"),
              AllOf(HasSubstr("from those of j-1, which are not on the shards any more"),
                    HasSubstr(kAgain)));
}

TEST_F(HeldResumeTest, AShardThatCannotMakeItsSliceFailsIt) {
  h_.shard(1).create_error = absl::UnimplementedError("it is of an earlier build");
  BeginNext();
  Pass(1);
  EXPECT_EQ(h_.State("j-2"), FAILED);
  EXPECT_THAT(h_.Reason("j-2"), AllOf(HasSubstr("its slices cannot be created: ps/1: it is of an "
                                                "earlier build"),
                                      HasSubstr(kAgain)));
}

// It waits for its turn, and nobody has trained it.
TEST_F(HeldResumeTest, SlicesThatAreLostBeforeTheTrainingAreMadeAgain) {
  h_.Submit(Plan(3));
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  ASSERT_OK(SubmitHeld(Plan(2), held_));
  h_.Settle();
  ASSERT_TRUE(h_.shard(1).jobs.contains("j-3"));
  h_.Restart(1);
  Pass(2);
  EXPECT_EQ(h_.State("j-3"), PENDING) << h_.Reason("j-3");
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-3"));
  ASSERT_OK(h_.core().Cancel("j-2", h_.now()));
  Pass(1);
  h_.Join(0);
  EXPECT_EQ(h_.State("j-3"), RUNNING);
}

TEST_F(HeldResumeTest, SlicesThatAreLostBeforeTheFirstGenerationFailIt) {
  BeginNext();
  h_.shard(0).disk_is_slow = h_.shard(1).disk_is_slow = true;
  h_.Settle();
  h_.Join(0);
  ASSERT_EQ(h_.State("j-2"), RUNNING);
  h_.Restart(1);
  Pass(2);
  EXPECT_EQ(h_.State("j-2"), FAILED);
  EXPECT_THAT(h_.Reason("j-2"), AllOf(HasSubstr("cannot restore its slice"), HasSubstr(kAgain)));
  EXPECT_TRUE(h_.core().Locate("j-1", h_.now())->has_held());
}

TEST_F(HeldResumeTest, AnotherLifeOfTheCoordinatorGoesOnMakingThem) {
  BeginNext();
  ASSERT_EQ(h_.core().TakeCommands(h_.now()).size(), 2u);
  h_.RestartCoordinator();
  h_.Poll();
  EXPECT_FALSE(h_.shard(0).jobs.contains("j-2"));
  Pass(1);  // Its worker joins again.
  ExpectNextRuns();
  EXPECT_EQ(h_.State("j-1"), SUCCEEDED);
}

TEST_F(HeldResumeTest, ALifeThatEndsWhenTheyAreMadeWaitsForNoClient) {
  BeginNext();
  h_.Settle();
  h_.RestartCoordinator();
  h_.Poll();
  ExpectNextRuns();
}

TEST_F(CoreResumeTest, WhatStillTrainsIsNotHeld) {
  h_.KeepState();
  Start(Plan(1));
  Pass(12);
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("j-1", h_.now()));
  EXPECT_FALSE(location.has_held());
  EXPECT_EQ(location.not_held(), "j-1 (RUNNING) still changes on the shards");
}

TEST_F(CoreResumeTest, WithoutAGenerationNothingIsHeld) {
  Start(Plan(1));
  Train();
  Pass(2);
  ASSERT_EQ(h_.State(), SUCCEEDED);
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("j-1", h_.now()));
  EXPECT_FALSE(location.has_held());
  EXPECT_EQ(location.not_held(), "what the shards hold of j-1 is no generation of it");
}

}  // namespace
}  // namespace monsoon
