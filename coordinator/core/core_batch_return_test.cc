// A batch whose shard or coordinator dies returns to the newest generation that is held.
#include <optional>
#include <vector>

#include "coordinator/core/core_batch_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreBatchTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class BatchReturnTest : public CoreBatchTest {
 protected:
  std::vector<uint32_t> Iterations() {
    std::vector<uint32_t> numbers;
    const JobDescription description = h_.Describe();
    for (const auto& iteration : description.sandblaster().trace()) {
      numbers.push_back(iteration.iteration());
    }
    return numbers;
  }
  // Iterations 1 to 3, of which 2 is in generation 2.
  void Advance() {
    StartBatch();
    ASSERT_TRUE(h_.core().TakeBatch().has_value());
    Iterate(1);
    ASSERT_OK(Ask());
    Iterate(2);
    Pass(1);
    ASSERT_EQ(Durability().generation(), 2u);
    Iterate(3);
  }
  // The minimiser's thread hears that it is called off.
  void CallOff() {
    EXPECT_FALSE(h_.core().batches().Runs(kBatch));
    h_.core().EndBatch(kBatch, absl::CancelledError("called off"), h_.now());
  }
  void ExpectReturned(uint64_t attempt, uint64_t generation, uint32_t iteration) {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(h_.shard(shard).restore.generation(), generation) << shard;
      EXPECT_EQ(h_.shard(shard).restore.attempt(), attempt) << shard;
      EXPECT_EQ(h_.shard(shard).attempt["j-1"], attempt) << shard;
    }
    EXPECT_THAT(EventText("batch_returned"),
                HasSubstr(absl::StrCat("returns to iteration ", iteration, " (generation ",
                                       generation, ")")));
    const std::optional<BatchTask> task = h_.core().TakeBatch();
    ASSERT_TRUE(task.has_value()) << h_.Reason();
    EXPECT_EQ(task->batch.attempt, attempt);
    EXPECT_THAT(task->shard_epochs, ElementsAre(h_.shard(0).epoch, h_.shard(1).epoch));
    ASSERT_EQ(task->from.has_value(), iteration > 0);
    if (iteration > 0) {
      EXPECT_EQ(task->from->SerializeAsString(), StateAt(iteration).SerializeAsString());
    }
    EXPECT_FALSE(h_.core().TakeBatch().has_value());
    kBatch.attempt = attempt;
    EXPECT_TRUE(h_.core().batches().Runs(kBatch));
  }
  // To the end, from the iteration after `last`.
  void GoOnFrom(uint32_t last) {
    ASSERT_OK(h_.core().batches().StartEvaluation(kBatch, (kBatch.attempt << 32) + 1, "w", false,
                                                  h_.now()));
    Iterate(last + 1);
    Iterate(last + 2);
    EndBatch();
    Pass(1);
    Finish();
    EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Reason();
    EXPECT_EQ(h_.Describe().sandblaster().end_reason(), "converged");
  }
};

TEST_F(BatchReturnTest, AShardThatDies) {
  Advance();
  EXPECT_EQ(Durability().promise(), "exactly_once");
  h_.Restart(1);
  h_.Poll();
  EXPECT_FALSE(h_.core().batches().Runs(kBatch));
  EXPECT_THAT(Note(4), StatusIs(absl::StatusCode::kCancelled, HasSubstr("returned")));
  h_.Settle();
  EXPECT_EQ(h_.shard(0).restores + h_.shard(1).restores, 0) << "the minimiser is still at it";
  CallOff();
  EXPECT_THAT(h_.Reason(), HasSubstr("to restore its slice"));
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  Pass(1);
  ExpectReturned(1, 2, 2);
  EXPECT_THAT(Iterations(), ElementsAre(1, 2));
  EXPECT_THAT(h_.Events(), AllOf(Contains("shard_restarted ps/1"), Contains("shard_restored ps/1"),
                                 Not(Contains("shard_restored ps/0"))));
  EXPECT_EQ(h_.Describe().counts().restores(), 1u);
  GoOnFrom(2);
  EXPECT_THAT(Iterations(), ElementsAre(1, 2, 3, 4));
}

TEST_F(BatchReturnTest, AnAnswerOfAnEarlierAttemptDoesNotCount) {
  Advance();
  h_.Restart(1);
  h_.Poll();
  CallOff();
  for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
    ShardAnswer answer = h_.Answer(command);
    answer.restored.set_attempt(0);
    h_.core().OnCommand(command, answer, h_.now());
  }
  EXPECT_EQ(h_.Describe().counts().restores(), 0u);
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("ps/0"), HasSubstr("ps/1"), HasSubstr("restore")));
  Pass(1);
  ExpectReturned(1, 2, 2);
}

TEST_F(BatchReturnTest, AShardThatIsAwayForLong) {
  Advance();
  h_.shard(1).alive = false;
  Pass(40);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_THAT(h_.Reason(), HasSubstr("the job goes on when it is started again"));
  EXPECT_TRUE(h_.core().batches().Runs(kBatch)) << "it may only be silent";
  h_.Restart(1);
  h_.Poll();
  CallOff();
  Pass(1);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchReturnTest, BeforeItsFirstIterationIsHeldItBeginsAgain) {
  StartBatch();
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  h_.Restart(0);
  h_.Poll();
  CallOff();
  Pass(1);
  ExpectReturned(1, 1, 0);
  EXPECT_TRUE(Iterations().empty());
  GoOnFrom(0);
}

TEST_F(BatchReturnTest, WithNoMinimiserAtItOnlyTheShardIsRestored) {
  StartBatch();
  h_.Restart(0);
  Pass(1);
  EXPECT_EQ(h_.shard(1).restores, 0);
  EXPECT_EQ(h_.shard(0).restore.attempt(), 0u);
  EXPECT_THAT(h_.Events(), Not(Contains("batch_returned")));
  ASSERT_TRUE(h_.core().TakeBatch().has_value()) << h_.Reason();
  EXPECT_TRUE(h_.core().batches().Runs(kBatch));
}

// The generation under way would hold iteration 3 on one shard and 2 on the other.
TEST_F(BatchReturnTest, AGenerationUnderWayIsAbandoned) {
  Advance();
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(Ask());
  Iterate(4);
  Pass(1);
  EXPECT_EQ(h_.shard(1).generation["j-1"], 3u);
  EXPECT_EQ(Durability().generation(), 2u);
  h_.Restart(1);
  h_.Poll();
  CallOff();
  h_.shard(0).disk_is_slow = false;
  Pass(1);
  ExpectReturned(1, 2, 2);
  Iterate(3);
  Pass(1);
  // Somebody had asked for it: it is made anew, under a number of its own.
  EXPECT_EQ(Durability().generation(), 4u);
  EXPECT_EQ(Context().iterations(), 3u);
  h_.Restart(0);
  h_.Poll();
  CallOff();
  Pass(1);
  ExpectReturned(2, 4, 3);
  GoOnFrom(3);
}

TEST_F(BatchReturnTest, AShardDiesOnceMoreBeforeAllAreBack) {
  Advance();
  h_.Restart(1);
  h_.Poll();
  CallOff();
  h_.shard(0).restore_error = absl::UnavailableError("its checkpoint is still being written");
  Pass(1);
  EXPECT_THAT(h_.Reason(), HasSubstr("which says: its checkpoint is still being written"));
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(1).attempt["j-1"], 1u) << "nobody has changed anything since";
  h_.shard(0).restore_error = absl::OkStatus();
  Pass(2);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchReturnTest, TheMinimiserSeesTheNewLifeFirst) {
  Advance();
  h_.Restart(1);
  h_.core().EndBatch(kBatch, absl::AbortedError("ps/1: its epoch is 1001, not 1000"), h_.now());
  EXPECT_EQ(h_.State(), RUNNING);
  Pass(2);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchReturnTest, AnErrorOfItsOwnStillFailsTheJob) {
  Advance();
  h_.core().EndBatch(kBatch, absl::ResourceExhaustedError("ps/1: no memory"), h_.now());
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("sandblaster: ps/1: no memory"));
}

TEST_F(BatchReturnTest, APartThatIsGoneFailsTheJobAndSaysHowToGoOn) {
  Advance();
  h_.Restart(1);
  h_.shard(1).restore_error = absl::NotFoundError("no good part of generation 2");
  h_.Poll();
  CallOff();
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), AllOf(HasSubstr("no good part of generation 2"),
                                 HasSubstr("`coordinator submit --resume=j-1` goes on from "
                                           "generation 2")));
}

TEST_F(BatchReturnTest, AChainGoesOnWhenAShardDiesBetweenItsParts) {
  Start(BatchPlan(/*chain=*/true));
  h_.shard(0).disk_is_slow = true;
  TrainFirstPart();
  // Its workers have all of it still.
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 0u);
  EXPECT_FALSE(h_.core().batches().Runs(kBatch));
  ASSERT_OK_AND_ASSIGN(const NextWorkReply again, h_.Ask(0));
  EXPECT_TRUE(again.has_flush());
  h_.shard(0).Write();
  Pass(1);
  EXPECT_FALSE(h_.core().batches().Runs(kBatch)) << "that one was ordered before it was restored";
  ASSERT_OK(h_.Ask(0));
  Pass(1);
  h_.shard(0).Write();
  Pass(1);
  EXPECT_TRUE(h_.core().batches().Runs(kBatch));
  // From here on the generation has.
  const uint64_t held = Durability().generation();
  ASSERT_GE(held, 1u);
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), held);
  h_.shard(0).disk_is_slow = false;
  h_.shard(0).Write();
  Pass(2);
  EXPECT_TRUE(h_.core().TakeBatch().has_value());
}

TEST_F(BatchReturnTest, WithoutStateFoldersTheJobFails) {
  h_.shard(0).state_dir.clear();
  h_.shard(1).state_dir.clear();
  Start(BatchPlan());
  EXPECT_EQ(Durability().promise(), "memory_only");
  ASSERT_TRUE(h_.core().TakeBatch().has_value()) << "it waits for no generation";
  Iterate(1);
  h_.Restart(1);
  Pass(1);
  h_.core().EndBatch(kBatch, absl::CancelledError("called off"), h_.now());
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
}

// ---- at the end --------------------------------------------------------------

TEST_F(BatchReturnTest, AtItsEndBeforeThatIsHeld) {
  Advance();
  h_.shard(1).disk_is_slow = true;
  EndBatch();
  Pass(1);
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  h_.Restart(1);
  h_.shard(1).disk_is_slow = false;
  Pass(2);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchReturnTest, OnceItsEndIsHeldTheShardAloneIsRestored) {
  Advance();
  EndBatch();
  Pass(1);
  ASSERT_EQ(h_.State(), FINISHING);
  h_.Restart(1);
  Pass(1);
  EXPECT_EQ(h_.shard(0).restores, 0);
  EXPECT_EQ(h_.shard(1).restore.generation(), 0u);
  EXPECT_EQ(h_.shard(1).restore.least_generation(), 3u);
  Finish();
  EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Reason();
}

// ---- the coordinator dies ----------------------------------------------------

class BatchCoordinatorTest : public BatchReturnTest {
 protected:
  // With nothing but what must be on the disk.
  void RestartCoordinator() {
    h_.RestartCoordinator();
    h_.Poll();
    h_.Beat(0);
  }
};

TEST_F(BatchCoordinatorTest, InTheMiddle) {
  Advance();
  RestartCoordinator();
  EXPECT_FALSE(h_.core().batches().Runs(kBatch));
  Pass(1);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchCoordinatorTest, ThatIsToldToStopFailsNothing) {
  Advance();
  h_.core().EndBatch(kBatch, absl::CancelledError("the coordinator stops"), h_.now());
  EXPECT_EQ(h_.State(), RUNNING);
  RestartCoordinator();
  Pass(1);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchCoordinatorTest, WithAGenerationUnderWay) {
  Advance();
  h_.shard(0).disk_is_slow = true;
  ASSERT_OK(Ask());
  Iterate(4);
  h_.Settle();
  RestartCoordinator();
  h_.shard(0).disk_is_slow = false;
  Pass(1);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchCoordinatorTest, BeforeItsParametersAreHeld) {
  h_.shard(0).disk_is_slow = true;
  StartBatch();
  RestartCoordinator();
  h_.shard(0).Write();
  Pass(1);
  ASSERT_TRUE(h_.core().TakeBatch().has_value()) << h_.Reason();
  EXPECT_TRUE(h_.core().batches().Runs(kBatch));
}

TEST_F(BatchCoordinatorTest, WhileItReturns) {
  Advance();
  h_.Restart(1);
  h_.Poll();
  CallOff();
  h_.shard(0).restore_error = absl::UnavailableError("not yet");
  h_.Settle();
  RestartCoordinator();
  h_.shard(0).restore_error = absl::OkStatus();
  Pass(2);
  ExpectReturned(2, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchCoordinatorTest, TogetherWithAShard) {
  Advance();
  h_.Restart(0);
  RestartCoordinator();
  Pass(1);
  ExpectReturned(1, 2, 2);
  GoOnFrom(2);
}

TEST_F(BatchCoordinatorTest, OnceItsEndIsHeldNothingIsDoneAgain) {
  Advance();
  EndBatch();
  h_.Settle();
  h_.Poll();
  ASSERT_EQ(h_.State(), FINISHING);
  RestartCoordinator();
  Pass(1);
  EXPECT_FALSE(h_.core().TakeBatch().has_value());
  EXPECT_EQ(h_.shard(0).restores, 0);
  Finish();
  EXPECT_EQ(h_.State(), SUCCEEDED) << h_.Reason();
  EXPECT_EQ(h_.Describe().sandblaster().end_reason(), "converged");
}

TEST_F(BatchCoordinatorTest, WithoutStateFoldersTheJobFails) {
  h_.shard(0).state_dir.clear();
  h_.shard(1).state_dir.clear();
  Start(BatchPlan());
  ASSERT_TRUE(h_.core().TakeBatch().has_value());
  Iterate(1);
  RestartCoordinator();
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), HasSubstr("the coordinator died during the batch"));
}

}  // namespace
}  // namespace monsoon
