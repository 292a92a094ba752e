#include "coordinator/core/coordinator_core.h"

#include "coordinator/core/core_harness.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreHarness;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class CoordinatorCoreTest : public ::testing::Test {
 protected:
  // A job that trains with workers 0..workers-1.
  void StartTraining(uint32_t workers, double epochs = 2) {
    h_.Submit(h_.Plan(epochs));
    h_.Poll();
    h_.Settle();
    for (uint32_t worker = 0; worker < workers; ++worker) {
      h_.Join(worker);
    }
    ASSERT_EQ(h_.State(), RUNNING);
  }

  CoreHarness h_{2, 3};
};

TEST_F(CoordinatorCoreTest, AnyStartOrderAndSaysWhoWaitsForWhom) {
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-1");
  h_.shard(1).alive = false;
  h_.Pass(absl::Seconds(12));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("waits for ps/1 at unix:ps1"),
                                 HasSubstr("not seen for 12 s"), Not(HasSubstr("ps/0"))));
  h_.shard(1).alive = true;
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_THAT(h_.Reason(),
              HasSubstr("waits for a worker: worker/0 at unix:w0 (not seen), worker/1 at"));
  h_.Join(2);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoordinatorCoreTest, ARepeatedSubmissionMakesNoSecondJob) {
  ASSERT_OK_AND_ASSIGN(
      const SubmitReply first,
      h_.core().Submit(h_.Plan(1), {.client_id = "drawn by the client"}, h_.now()));
  ASSERT_OK_AND_ASSIGN(
      const SubmitReply again,
      h_.core().Submit(h_.Plan(1), {.client_id = "drawn by the client"}, h_.now()));
  ASSERT_OK_AND_ASSIGN(const SubmitReply other,
                       h_.core().Submit(h_.Plan(1), {.client_id = "another"}, h_.now()));
  EXPECT_EQ(first.job(), "j-1");
  EXPECT_EQ(again.job(), "j-1");
  EXPECT_EQ(other.job(), "j-2");
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-3");  // Without an id each is a job of its own.
}

TEST_F(CoordinatorCoreTest, OneWorkerToTheEnd) {
  StartTraining(1);
  const HeartbeatReply beat = h_.Beat(0);
  EXPECT_EQ(beat.assignment().session().job(), "j-1");
  EXPECT_THAT(beat.assignment().shard_address(), ElementsAre("unix:ps0", "unix:ps1"));
  EXPECT_EQ(beat.assignment().connections(), 3u);
  EXPECT_THAT(beat.assignment().shard_epoch(), ElementsAre(1000, 1000));
  h_.TrainToTheEnd(0);
  // Not before the sessions are closed and the shards polled once more.
  EXPECT_EQ(h_.State(), FINISHING);
  EXPECT_FALSE(h_.Beat(0).has_assignment());
  h_.Settle();
  EXPECT_TRUE(h_.core().wants_poll());
  EXPECT_EQ(h_.State(), FINISHING);
  h_.shard(0).version = h_.shard(1).version = 28;
  h_.Poll();
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_THAT(h_.shard(0).open, IsEmpty());
  EXPECT_EQ(h_.done_.size(), 8u);
  const JobDescription description = h_.Describe();
  EXPECT_EQ(description.summary().percent(), 100);
  EXPECT_EQ(description.progress().epoch(), 2.0);
  EXPECT_EQ(description.data().blocks(), 4u);
  EXPECT_EQ(description.data().blocks_done(), 8u);
  EXPECT_EQ(description.shard(1).version_min(), 28u);
  EXPECT_EQ(description.shard(1).pushes(), 28u);
  EXPECT_FALSE(description.has_final_test_accuracy());
  EXPECT_TRUE(h_.shard(0).jobs.contains("j-1"));  // For export.
  ASSERT_OK_AND_ASSIGN(const JobLocation location, h_.core().Locate("latest", h_.now()));
  EXPECT_THAT(location.shard_epoch(), ElementsAre(1000, 1000));
}

TEST_F(CoordinatorCoreTest, LostShardEndsTheJobWithinFiveSeconds) {
  StartTraining(2);
  h_.Pass(absl::Seconds(3), {0, 1});
  h_.shard(0).alive = false;
  absl::Duration waited;
  while (h_.State() == RUNNING && waited < absl::Seconds(10)) {
    h_.Pass(absl::Milliseconds(500), {0, 1});
    waited += absl::Milliseconds(500);
  }
  EXPECT_LE(waited, absl::Seconds(5));
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/0 (pid 100) at unix:ps0 is lost"),
                                 HasSubstr("connection refused"), HasSubstr("j-1")));
  EXPECT_THAT(h_.shard(1).open, IsEmpty());  // Closed where it could be.
  EXPECT_FALSE(h_.Beat(0).has_assignment());
  EXPECT_TRUE(h_.Ask(0)->has_finish());
}

TEST_F(CoordinatorCoreTest, RestartedShardEndsTheJobAtOnce) {
  StartTraining(1);
  h_.Restart(1);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(),
              HasSubstr("ps/1 (pid 101) at unix:ps1 restarted as pid 151; its slice of "
                        "job j-1 is lost"));
  EXPECT_THAT(h_.core().Locate("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("restarted")));
}

// A creation of before would else count for the one that follows, whose call is still
// under way and may be served when workers have pushed already.
TEST_F(CoordinatorCoreTest, AnAnswerToAnEarlierCreationDoesNotCount) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  std::vector<ShardCommand> early = h_.core().TakeCommands(h_.now());
  ASSERT_THAT(early, SizeIs(2));
  std::vector<ShardAnswer> answers;
  for (const ShardCommand& command : early) {
    answers.push_back(h_.Answer(command));
  }
  h_.core().OnCommand(early[0], answers[0], h_.now());
  h_.Restart(0);
  h_.Poll();
  const std::vector<ShardCommand> late = h_.core().TakeCommands(h_.now());
  ASSERT_THAT(late, SizeIs(2));
  h_.core().OnCommand(early[1], answers[1], h_.now());
  h_.core().OnCommand(late[0], h_.Answer(late[0]), h_.now());
  h_.core().OnCommand(late[1], {.status = absl::DeadlineExceededError("no answer")}, h_.now());
  EXPECT_EQ(h_.Reason(), "its slices are being created");
  EXPECT_THAT(h_.core().TakeCommands(h_.now()), IsEmpty());
  h_.Pass(absl::Seconds(1));
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoordinatorCoreTest, AShardThatRestartsBeforeTrainingCostsNothing) {
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-1"));
  h_.Restart(1);
  h_.Poll();
  h_.Settle();
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-1"));
  h_.Join(0);
  EXPECT_THAT(h_.Beat(0).assignment().shard_epoch(), ElementsAre(1000, 1001));
}

TEST_F(CoordinatorCoreTest, FirstInFirstOutOneAtATime) {
  h_.Submit(h_.Plan(1));
  h_.Submit(h_.Plan(1));
  JobPlan other = h_.Plan(1);
  other.job.set_name("k");
  EXPECT_EQ(h_.Submit(other), "k-3");
  h_.Poll();
  h_.Settle();
  h_.Join(0);
  EXPECT_EQ(h_.State("j-1"), RUNNING);
  EXPECT_THAT(h_.Reason("j-2"), HasSubstr("waits for job j-1 to end"));
  EXPECT_FALSE(h_.shard(0).jobs.contains("j-2"));
  h_.TrainToTheEnd(0);
  h_.Settle();
  h_.Poll();
  EXPECT_EQ(h_.State("j-1"), SUCCEEDED);
  h_.Settle();
  EXPECT_EQ(h_.State("j-2"), RUNNING);
  EXPECT_EQ(h_.State("k-3"), PENDING);
  EXPECT_EQ(h_.Beat(0).assignment().session().job(), "j-2");
  ASSERT_OK(h_.core().Cancel("k-3", h_.now()));
  EXPECT_EQ(h_.State("k-3"), CANCELLED);
  EXPECT_EQ(h_.core().List(h_.now()).job_size(), 3);
  EXPECT_THAT(h_.core().Describe("j-9", h_.now()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("j-9")));
}

TEST_F(CoordinatorCoreTest, CancelInEachState) {
  // Waiting for shards.
  h_.Submit(h_.Plan(1));
  ASSERT_OK(h_.core().Cancel("latest", h_.now()));
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_THAT(h_.shard(0).jobs, IsEmpty());
  // While slices are being created.
  h_.Submit(h_.Plan(1));
  h_.Poll();
  const std::vector<ShardCommand> create = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(create.size(), 2u);
  ASSERT_OK(h_.core().Cancel("latest", h_.now()));
  EXPECT_EQ(h_.State(), CANCELLED);
  for (const ShardCommand& command : create) {
    h_.core().OnCommand(command, {h_.Execute(command), 1000}, h_.now());
  }
  ASSERT_OK(h_.core().Delete("latest", h_.now()));  // Also frees what came late.
  h_.Settle();
  EXPECT_THAT(h_.shard(0).jobs, IsEmpty());
  // Waiting for workers, and running.
  for (const bool running : {false, true}) {
    h_.Submit(h_.Plan(1));
    h_.Settle();
    if (running) {
      h_.Join(0);
      ASSERT_OK(h_.Ask(0));
    }
    ASSERT_OK(h_.core().Cancel("latest", h_.now()));
    ASSERT_OK(h_.core().Cancel("latest", h_.now()));  // Safe to repeat.
    EXPECT_EQ(h_.State(), running ? RUNNING : CANCELLED);
    if (running) {
      EXPECT_TRUE(h_.Ask(0)->has_finish());
      h_.Settle();  // Closes the session.
      EXPECT_EQ(h_.State(), CANCELLED);
    }
    EXPECT_THAT(h_.shard(1).open, IsEmpty());
  }
  // An ended one.
  h_.Submit(h_.Plan(1));
  h_.Settle();
  h_.Beat(0);
  h_.Settle();
  h_.Beat(0);
  h_.TrainToTheEnd(0);
  h_.Settle();
  h_.Poll();
  EXPECT_THAT(h_.core().Cancel("latest", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("SUCCEEDED")));
}

TEST_F(CoordinatorCoreTest, DeleteFreesSlicesAndMemoryIsAdmittedWithTheSum) {
  StartTraining(1, 1);  // 300 KiB of 1 MiB per shard.
  EXPECT_THAT(h_.core().Delete("j-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cancel it")));
  h_.Submit(h_.Plan(1));
  h_.Submit(h_.Plan(1));
  EXPECT_THAT(
      h_.core().Submit(h_.Plan(1), {}, h_.now()).status(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("ps/0: the job needs 0.3 MiB"), HasSubstr("j-1, j-2, j-3 0.9 MiB"),
                     HasSubstr("together 1.2 MiB of 1.0 MiB"))));
  ASSERT_OK(h_.core().Cancel("j-3", h_.now()));  // Never had slices.
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-4");
  h_.TrainToTheEnd(0);
  h_.Settle();
  h_.Poll();
  EXPECT_EQ(h_.core().Submit(h_.Plan(1), {}, h_.now()).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_OK(h_.core().Delete("j-1", h_.now()));
  EXPECT_NE(h_.core().state().FindJob("j-1"), nullptr);
  h_.Settle();
  EXPECT_EQ(h_.core().state().FindJob("j-1"), nullptr);
  EXPECT_FALSE(h_.shard(0).jobs.contains("j-1"));
  h_.Submit(h_.Plan(1));
}

TEST_F(CoordinatorCoreTest, InitWaitsForTheClientAndDoesNotBlockOthers) {
  h_.Submit(h_.Plan(1), /*init=*/true);
  EXPECT_THAT(h_.core().Start("latest", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("PENDING")));
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State("j-1"), INITIALIZING);
  EXPECT_TRUE(h_.shard(0).jobs.at("j-1"));
  ASSERT_OK(h_.core().Locate("j-1", h_.now()));
  h_.Submit(h_.Plan(1));
  h_.Settle();
  h_.Join(0);
  EXPECT_EQ(h_.State("j-2"), RUNNING);
  ASSERT_OK(h_.core().Start("j-1", h_.now()));
  ASSERT_OK(h_.core().Start("j-1", h_.now()));
  EXPECT_EQ(h_.State("j-1"), PENDING);
  h_.TrainToTheEnd(0);
  h_.Settle();
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State("j-1"), RUNNING);
  EXPECT_THAT(h_.core().Start("j-2", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not submitted with")));
}

TEST_F(CoordinatorCoreTest, InitParametersDieWithAShard) {
  h_.Submit(h_.Plan(1), /*init=*/true);
  h_.Poll();
  h_.Settle();
  h_.Restart(0);
  h_.Poll();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("ps/0"));
}

TEST_F(CoordinatorCoreTest, SlicesOfAnEarlierCoordinatorAreReplacedOrPassedOver) {
  h_.shard(0).jobs["j-1"] = false;
  h_.Submit(h_.Plan(1));  // Before the shards were heard: j-1 again.
  h_.Poll();
  for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
    EXPECT_EQ(command.replace, command.shard == 0);
  }
  h_.shard(1).jobs["j-2"] = false;
  h_.Poll();
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-3");
}

// What a slice that is larger than the shard's container comes to.
TEST_F(CoordinatorCoreTest, ACreationThatKillsItsShardEachTimeFailsTheJob) {
  h_.Submit(h_.Plan(1));
  for (int death = 1; death <= kMostCreationDeaths; ++death) {
    h_.Poll();
    ASSERT_EQ(h_.State(), PENDING) << death;
    h_.shard(1).alive = false;
    h_.Settle();
    h_.Restart(1);
  }
  h_.Poll();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/1 (pid 201) at unix:ps1"),
                                 HasSubstr("died 3 times in a row while it made its slice of job "
                                           "j-1, which takes 0.3 MiB there")));
  // The next one has what it held there.
  h_.Settle();
  EXPECT_EQ(h_.Submit(h_.Plan(1)), "j-2");
  h_.Settle();
  EXPECT_TRUE(h_.shard(1).jobs.contains("j-2"));
}

TEST_F(CoordinatorCoreTest, DeathsThatNoCreationIsTheCauseOfDoNotCount) {
  h_.Submit(h_.Plan(1));
  for (int death = 0; death < 3 * kMostCreationDeaths; ++death) {
    h_.Poll();
    if (death % kMostCreationDeaths != 0) {
      h_.shard(1).alive = false;  // before it has made the slice
    }
    h_.Settle();
    h_.Restart(1);
    h_.Restart(0);  // which had made its own
  }
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING);
  h_.Join(0);
  EXPECT_EQ(h_.State(), RUNNING);
}

TEST_F(CoordinatorCoreTest, RefusedCreationFailsTheJobByName) {
  h_.shard(1).create_error = absl::ResourceExhaustedError("4 MiB of 3 MiB");
  h_.Submit(h_.Plan(1));
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/1"), HasSubstr("4 MiB of 3 MiB")));
}

}  // namespace
}  // namespace monsoon
