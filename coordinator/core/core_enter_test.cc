// Programs that enter a joined job: its name, who writes its initial parameters, its end.
#include "coordinator/core/core_enter_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreEnterTest;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST_F(CoreEnterTest, TheFirstWritesTheParametersAndAllTrain) {
  EnterReply reply = Enter(1);
  EXPECT_EQ(reply.part(), EnterReply::WAIT);
  EXPECT_THAT(reply.reason(), HasSubstr("waits for ps/0 at unix:ps0 (not seen"));
  EXPECT_EQ(reply.job(), "gpt-1");
  EXPECT_EQ(reply.cluster(), "c");
  EXPECT_EQ(reply.heartbeat_ms(), 500u);
  EXPECT_EQ(reply.lost_after_ms(), 3000u);
  EXPECT_EQ(reply.rpc_deadline_ms(), 10000u);
  EXPECT_EQ(reply.config().name(), "gpt");
  EXPECT_GT(reply.retry_ms(), 0u);
  EXPECT_EQ(h_.State(), PENDING);
  h_.Poll();
  Enter(1);
  reply = Enter(1);
  ASSERT_EQ(reply.part(), EnterReply::INITIALIZE);
  EXPECT_EQ(reply.writer(), 1u);
  EXPECT_EQ(reply.location().address_size(), 2);
  EXPECT_EQ(reply.location().connections(), 3u);
  EXPECT_EQ(reply.location().job(), "gpt-1");
  EXPECT_EQ(h_.State(), INITIALIZING);
  EXPECT_TRUE(h_.shard(0).jobs.at("gpt-1")) << "written by the client";
  EXPECT_EQ(Enter(1).writer(), 1u);
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  EXPECT_THAT(Enter(2).reason(), HasSubstr("pid 201 on attic has been writing them for 0.0 s"));
  EXPECT_THAT(h_.core().Locate("gpt-1", h_.now()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("gpt-1 (INITIALIZING) has no parameters yet: waits for the")));
  EXPECT_FALSE(h_.core().Start("gpt-1", h_.now()).ok());
  EXPECT_EQ(Enter(1, "gpt", 1).part(), EnterReply::TRAIN);
  EXPECT_EQ(Enter(1, "gpt", 1).part(), EnterReply::TRAIN) << "repeated";
  EXPECT_EQ(Enter(2).part(), EnterReply::TRAIN);
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(), "waits for a program to join: `ms.join(..., job=\"gpt\")`");
  EXPECT_OK(h_.core().Locate("gpt-1", h_.now()));
  Join(1, "gpt-1");
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.Beat(1).replicas(), 1u);
  Join(2, "gpt-1");
  EXPECT_EQ(h_.Beat(1).replicas(), 2u);
  EXPECT_THAT(h_.Events(), AllOf(Contains("submitted"), Contains("initializing"),
                                 Contains("worker_joined worker/1")));
  h_.Leave(2);
  h_.Settle();
  h_.TrainToTheEnd(1);
  h_.Pass(absl::Seconds(1), {1});
  EXPECT_EQ(h_.State(), SUCCEEDED);
  EXPECT_EQ(h_.Beat(1).job_ended(), SUCCEEDED);
  // One that comes too late is no member.
  h_.incarnation_[2] = 0;
  const HeartbeatReply late = h_.Beat(2);
  EXPECT_EQ(late.job_ended(), SUCCEEDED);
  EXPECT_EQ(late.incarnation(), 0u);
}

TEST_F(CoreEnterTest, AWriterThatIsSilentIsReplacedByTheNextThatCalls) {
  Make(1);
  h_.Pass(absl::Seconds(2));
  EXPECT_EQ(Enter(1).part(), EnterReply::INITIALIZE);
  h_.Pass(absl::Seconds(2));
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT) << "it was heard 2 s ago";
  h_.Pass(absl::Seconds(2));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(), "waits for a program to join: `ms.join(..., job=\"gpt\")`");
  const EnterReply next = Enter(2);
  EXPECT_EQ(next.part(), EnterReply::INITIALIZE);
  EXPECT_EQ(next.writer(), 2u);
  EXPECT_EQ(h_.State(), INITIALIZING);
  // What the first one has sealed late counts for nothing, and is no error.
  const EnterReply late = Enter(1, "gpt", 1);
  EXPECT_EQ(late.part(), EnterReply::WAIT);
  EXPECT_THAT(late.reason(), HasSubstr("pid 202 on attic"));
  EXPECT_EQ(h_.State(), INITIALIZING);
  EXPECT_EQ(Enter(2, "gpt", 2).part(), EnterReply::TRAIN);
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN);
}

TEST_F(CoreEnterTest, AWriterThatIsLateAndNotReplacedGoesOn) {
  Make(1);
  h_.Pass(absl::Seconds(10));
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(Enter(1).writer(), 1u);
  EXPECT_EQ(h_.State(), INITIALIZING);
  h_.Pass(absl::Seconds(10));
  EXPECT_EQ(Enter(1, "gpt", 1).part(), EnterReply::TRAIN);
}

TEST_F(CoreEnterTest, NobodyNeedWriteWithinAnHour) {
  Make(1);
  h_.Pass(absl::Minutes(61));
  EXPECT_EQ(h_.State(), PENDING);
}

TEST_F(CoreEnterTest, AShardThatDiesWhileTheyAreWrittenBeginsThemAnew) {
  Make(1);
  h_.Restart(1);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING);
  // What is sealed were slices that are gone.
  const EnterReply again = Enter(1, "gpt", 1);
  EXPECT_EQ(again.part(), EnterReply::INITIALIZE);
  EXPECT_EQ(again.writer(), 2u);
  EXPECT_EQ(again.location().shard_epoch(1), h_.shard(1).epoch);
  EXPECT_THAT(h_.Events(), Contains("shard_restarted ps/1"));
  EXPECT_EQ(Enter(1, "gpt", 2).part(), EnterReply::TRAIN);
}

TEST_F(CoreEnterTest, AShardThatDiesBeforeAnybodyTrainsBeginsThemAnewToo) {
  Begin(1);
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING) << h_.Reason();
  EXPECT_EQ(Enter(2).part(), EnterReply::INITIALIZE) << h_.Reason();
  EXPECT_EQ(Enter(2, "gpt", 2).part(), EnterReply::TRAIN);
}

// A slice of before has had sessions: it cannot be written any more.
TEST_F(CoreEnterTest, SlicesOfBeforeMakeWayAlsoInTheNextLifeOfTheCoordinator) {
  const std::string job = Begin(1);
  BecomesGuest(1, job);
  h_.Beat(1);
  h_.shard(0).silent = true;
  h_.Restart(0);
  h_.Settle();
  EXPECT_THAT(h_.shard(1).history, Contains("open gpt-1/1#1"));
  h_.shard(0).silent = false;
  h_.Poll();
  h_.core().TakeCommands(h_.now());  // lost with the coordinator
  ASSERT_EQ(h_.State(), PENDING) << h_.Reason();
  h_.RestartCoordinator();
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u) << "they have not said what they have";
  h_.Poll();
  for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
    EXPECT_EQ(command.replace, command.shard == 1) << command.shard;
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  EXPECT_EQ(Enter(1).writer(), 2u) << h_.Reason();
}

TEST_F(CoreEnterTest, SlicesOfBeforeMakeWayThoughNoPollHasShownThemYet) {
  const std::string job = Begin(1);
  BecomesGuest(1, job);
  h_.Beat(1);
  h_.shard(0).silent = true;
  h_.Restart(0);
  h_.Settle();
  ASSERT_THAT(h_.shard(1).history, Contains("open gpt-1/1#1"));
  h_.shard(0).silent = false;
  const uint64_t round = h_.core().BeginPoll();
  h_.core().OnPoll(0, round, h_.Status(0), h_.now());
  std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].shard, 0u);
  h_.core().OnPoll(1, round, h_.Status(1), h_.now());
  commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].shard, 1u);
  EXPECT_TRUE(commands[0].replace);
}

// Nobody else may be there to write them.
TEST_F(CoreEnterTest, WhoMayTrainAlreadyIsToldToEnterOnceMoreThen) {
  const std::string job = Begin(1);
  BecomesGuest(1, job);
  EXPECT_FALSE(h_.Beat(1).enter_again());
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_TRUE(h_.Beat(1).enter_again());
  EXPECT_EQ(Enter(1).part(), EnterReply::INITIALIZE) << h_.Reason();
  EXPECT_EQ(Enter(1, "gpt", 2).part(), EnterReply::TRAIN);
  EXPECT_FALSE(h_.Beat(1).enter_again());
}

// ---- the first generation ----------------------------------------------------

class CoreFirstGenerationTest : public CoreEnterTest {
 protected:
  CoreFirstGenerationTest() {
    h_.KeepState();
    h_.shard(0).disk_is_slow = h_.shard(1).disk_is_slow = true;
  }
  void WriteParts() {
    h_.shard(0).Write();
    h_.shard(1).Write();
    h_.Poll();
  }
};

TEST_F(CoreFirstGenerationTest, NobodyTrainsBeforeItIsHeld) {
  EnterReply reply = Write(1);
  EXPECT_EQ(reply.part(), EnterReply::WAIT);
  EXPECT_THAT(reply.reason(), HasSubstr("waits for its first checkpoint, of the initial"));
  EXPECT_EQ(h_.shard(0).ordered.at("gpt-1").generation(), 1u) << "at once";
  EXPECT_EQ(h_.State(), PENDING);
  EXPECT_EQ(h_.Reason(), reply.reason());
  BecomesGuest(1, "gpt-1");
  h_.Beat(1);
  h_.Settle();
  EXPECT_FALSE(h_.Beat(1).has_assignment());
  h_.shard(0).Write();
  h_.Poll();
  EXPECT_EQ(Enter(1).part(), EnterReply::WAIT) << "of one shard alone";
  WriteParts();
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN);
  Join(1, "gpt-1");
  ASSERT_OK(h_.Ask(1));
  // From now on a shard's death is one like any other.
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), RUNNING) << h_.Reason();
  EXPECT_EQ(h_.shard(0).restored.generation(), 1u);
}

TEST_F(CoreFirstGenerationTest, AShardThatDiesBeforeItHasAnotherProgramWrite) {
  Write(1);
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING) << h_.Reason();
  EXPECT_EQ(Enter(2).part(), EnterReply::INITIALIZE) << h_.Reason();
  EXPECT_EQ(h_.State(), INITIALIZING);
  EXPECT_EQ(Enter(1).part(), EnterReply::WAIT);
  EXPECT_EQ(Enter(2, "gpt", 2).part(), EnterReply::WAIT);
  WriteParts();
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN);
  EXPECT_EQ(Enter(2).part(), EnterReply::TRAIN);
}

TEST_F(CoreFirstGenerationTest, AShardWhosePartIsWrittenGetsItBack) {
  Write(1);
  h_.shard(0).Write();
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.shard(0).restored.generation(), 1u);
  WriteParts();
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN) << h_.Reason();
}

// Of two shards that die, one has its part of the first writer's parameters.
TEST_F(CoreFirstGenerationTest, APartOfAnEarlierWriterIsNotTaken) {
  Write(1);
  h_.shard(0).Write();
  h_.Restart(0);
  h_.Restart(1);
  h_.shard(0).silent = true;
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.State(), PENDING) << h_.Reason();
  h_.shard(0).silent = false;
  h_.Poll();
  const std::vector<ShardCommand> commands = h_.core().TakeCommands(h_.now());
  ASSERT_EQ(commands.size(), 2u);
  for (const ShardCommand& command : commands) {
    EXPECT_TRUE(command.replace) << "ps/" << command.shard << " would keep its part";
    h_.core().OnCommand(command, h_.Answer(command), h_.now());
  }
  h_.shard(0).generation["gpt-1"] = 1;  // all the same
  ASSERT_EQ(Enter(2).part(), EnterReply::INITIALIZE) << h_.Reason();
  Enter(2, "gpt", 2);
  EXPECT_EQ(h_.shard(0).ordered.at("gpt-1").generation(), 2u);
  h_.Restart(0);
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(h_.shard(0).restore.least_generation(), 2u);
  EXPECT_EQ(Enter(1).writer(), 3u) << h_.Reason();
}

TEST_F(CoreFirstGenerationTest, TheCoordinatorMayDieBeforeIt) {
  Write(1);
  h_.RestartCoordinator();
  EXPECT_EQ(Enter(1).part(), EnterReply::WAIT) << "what the shards keep is not known";
  h_.Poll();
  h_.Settle();
  EXPECT_EQ(Enter(1).part(), EnterReply::WAIT);
  WriteParts();
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN) << h_.Reason();
}

TEST_F(CoreFirstGenerationTest, ADiskThatIsFullIsAwaitedOrGivenUp) {
  for (const bool goes_on : {false, true}) {
    JobPlan plan = Joined(goes_on ? "on" : "waits");
    if (goes_on) {
      plan.job.mutable_checkpoint()->set_on_storage_failure(CONTINUE_IN_MEMORY);
    }
    h_.shard(0).disk_is_slow = h_.shard(1).disk_is_slow = false;
    h_.shard(1).disk_error = "ps/1: no space";
    h_.Poll();
    EnterReply reply;
    for (int i = 0; i < 5; ++i) {
      EnterRequest request = RequestOf(1, plan);
      request.set_sealed_by(reply.writer());
      ASSERT_OK_AND_ASSIGN(reply, h_.core().Enter(request, plan, h_.now()));
      h_.job_term_ = reply.job_term();
      h_.Settle();
      h_.Poll();
    }
    EXPECT_EQ(reply.part(), goes_on ? EnterReply::TRAIN : EnterReply::WAIT) << reply.reason();
    EXPECT_THAT(h_.Reason(reply.job()), HasSubstr(goes_on ? "a program to join" : "no space"));
  }
}

TEST_F(CoreFirstGenerationTest, IsNotAwaitedOfAJobWithoutCheckpoints) {
  JobPlan plan = Joined("gpt");
  plan.job.mutable_checkpoint()->set_off(true);
  h_.Poll();
  EnterReply reply;
  for (int i = 0; i < 3; ++i) {
    EnterRequest request = RequestOf(1, plan);
    request.set_sealed_by(reply.writer());
    ASSERT_OK_AND_ASSIGN(reply, h_.core().Enter(request, plan, h_.now()));
    h_.Settle();
  }
  EXPECT_EQ(reply.part(), EnterReply::TRAIN) << reply.reason();
}

TEST_F(CoreEnterTest, AShardThatIsSilentIsAwaited) {
  Make(1);
  h_.shard(1).silent = true;
  h_.Pass(absl::Seconds(4));
  EXPECT_THAT(Enter(1).reason(), HasSubstr("ps/1"));
  EXPECT_EQ(Enter(1).part(), EnterReply::WAIT);
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  h_.shard(1).silent = false;
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(Enter(1).writer(), 1u) << "it has asked all the time";
}

TEST_F(CoreEnterTest, TheCoordinatorMayDieWhileTheyAreWritten) {
  Make(1);
  h_.RestartCoordinator();
  h_.Poll();
  EXPECT_EQ(h_.State(), INITIALIZING);
  EXPECT_EQ(Enter(2).part(), EnterReply::WAIT);
  EXPECT_EQ(Enter(1).writer(), 1u);
  h_.RestartCoordinator();
  h_.Poll();
  h_.Pass(absl::Seconds(4));
  EXPECT_EQ(Enter(2).writer(), 2u);
  h_.RestartCoordinator();
  h_.Poll();
  EXPECT_EQ(Enter(1, "gpt", 1).part(), EnterReply::WAIT);
  EXPECT_EQ(Enter(2, "gpt", 2).part(), EnterReply::TRAIN);
  h_.RestartCoordinator();
  h_.Poll();
  EXPECT_EQ(Enter(1).part(), EnterReply::TRAIN);
}

// After each call of a whole entry a coordinator may die; the programs go on asking, and the
// job trains in the end.
TEST_F(CoreEnterTest, TheCoordinatorMayDieAfterAnyCall) {
  std::vector<size_t> ends;  // of calls, in updates
  const auto ended = [&] { ends.push_back(h_.updates_.size()); };
  h_.Poll();
  ended();
  const JobPlan plan = Joined("gpt");
  EnterReply reply;
  for (int i = 0; i < 3; ++i) {
    EnterRequest request = RequestOf(1, plan);
    request.set_sealed_by(reply.writer());
    ASSERT_OK_AND_ASSIGN(reply, h_.core().Enter(request, plan, h_.now()));
    h_.job_term_ = reply.job_term();
    ended();
    for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
      h_.core().OnCommand(command, h_.Answer(command), h_.now());
      ended();
    }
  }
  ASSERT_EQ(reply.part(), EnterReply::TRAIN);
  const std::vector<StateUpdate> all = h_.updates_;
  for (const size_t kept : ends) {
    h_.updates_ = all;
    h_.RestartCoordinator(kept);
    reply.Clear();
    for (int i = 0; i < 5 && reply.part() != EnterReply::TRAIN; ++i) {
      h_.Poll();
      h_.Settle();
      reply = Enter(1, "gpt", reply.writer());
    }
    EXPECT_EQ(reply.part(), EnterReply::TRAIN) << kept << ": " << reply.reason();
    EXPECT_EQ(h_.core().state().snapshot().job_size(), 1);
  }
}

// ---- names -------------------------------------------------------------------

TEST_F(CoreEnterTest, ANameIsItsNewestJobUnlessItHasEnded) {
  EXPECT_THAT(TryEnter(1, "gpt", 0, /*only_enter=*/true).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job \"gpt\" is there to enter")));
  EXPECT_EQ(Make(1), "gpt-1");
  EXPECT_OK(TryEnter(2, "gpt", 0, /*only_enter=*/true));
  EXPECT_EQ(Enter(2, "gpt-1").job(), "gpt-1");
  ASSERT_OK(h_.core().Cancel("gpt-1", h_.now()));
  EXPECT_THAT(TryEnter(2, "gpt-1").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("job gpt-1 has ended: CANCELLED: cancelled by a user")));
  EXPECT_THAT(TryEnter(1, "gpt", 0, /*only_enter=*/true).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the newest, gpt-1, has ended")));
  // A program that was in it hears how.
  EnterRequest again = RequestOf(2, Joined("gpt-1"));
  again.set_again(true);
  ASSERT_OK_AND_ASSIGN(const EnterReply end, h_.core().Enter(again, Joined("gpt-1"), h_.now()));
  EXPECT_EQ(end.job(), "gpt-1");
  EXPECT_TRUE(end.has_ended());
  EXPECT_EQ(end.ended(), CANCELLED);
  EXPECT_EQ(end.reason(), "cancelled by a user");
  EXPECT_EQ(Enter(1).job(), "gpt-2");
  EXPECT_THAT(TryEnter(1, "gpt-7").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no job gpt-7; the newest of \"gpt\" is gpt-2")));
  EXPECT_EQ(Enter(1, "resnet-50").job(), "resnet-50-3");
  EXPECT_EQ(Enter(1, "resnet-50").job(), "resnet-50-3");
}

TEST_F(CoreEnterTest, AJobOfLayersIsNotEntered) {
  h_.Submit(h_.Plan(1));
  EXPECT_THAT(TryEnter(1, "j-1").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of a model of layers")));
  EXPECT_EQ(Enter(1, "j").job(), "j-2");
}

TEST_F(CoreEnterTest, IsNotSubmitted) {
  EXPECT_THAT(h_.core().Submit(Joined("gpt"), {}, h_.now()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("made by the programs that join them")));
}

TEST_F(CoreEnterTest, OtherSettingsAreRefusedWithTheField) {
  Make(1);
  JobPlan other = Joined("gpt");
  other.job.set_batch_size(7);
  EXPECT_THAT(h_.core().Enter(RequestOf(2, other), other, h_.now()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("job gpt-1 has other settings: batch_size is 7 here and 5 in job "
                                 "gpt-1")));
  other = Joined("gpt");
  other.job.mutable_model()->mutable_tensor(0)->set_shape(0, 65);
  EXPECT_THAT(h_.core().Enter(RequestOf(2, other), other, h_.now()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wte is")));
}

TEST_F(CoreEnterTest, WhatDoesNotFitTheMemoryIsNotMade) {
  JobPlan large = Joined("gpt");
  large.shard_bytes.assign(2, 2 << 20);
  EXPECT_THAT(h_.core().Enter(RequestOf(1, large), large, h_.now()).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("not enough memory")));
  EXPECT_EQ(h_.core().state().snapshot().job_size(), 0);
}

TEST_F(CoreEnterTest, AnotherBuildIsRefusedWithBothVersions) {
  EnterRequest request = RequestOf(1, Joined("gpt"));
  request.set_protocol_version(kProtocolVersion + 1);
  request.set_version("monsoon 0.2.0");
  EXPECT_THAT(CheckProgram(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat(
                           "program: monsoon 0.2.0 (protocol ", kProtocolVersion + 1,
                           "), coordinator: monsoon 0.1.0 (protocol ", kProtocolVersion, ")"))));
  request = RequestOf(1, Joined("gpt"));
  request.set_guest(0);
  EXPECT_FALSE(CheckProgram(request).ok());
  request = RequestOf(1, testing::CoreHarness::Plan(1, 2, 1));
  EXPECT_THAT(CheckProgram(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("lists no tensors of its model")));
}

TEST_F(CoreEnterTest, OneThatIsCancelledWhileItIsWrittenIsNotMadeAgain) {
  Make(1);
  ASSERT_OK(h_.core().Cancel("gpt-1", h_.now()));
  EXPECT_EQ(h_.State(), CANCELLED);
  EXPECT_FALSE(TryEnter(1, "gpt-1", 1).ok());
  ASSERT_OK(h_.core().Delete("gpt-1", h_.now()));
  h_.Settle();
  EXPECT_EQ(h_.core().state().FindJob("gpt-1"), nullptr);
  EXPECT_FALSE(h_.shard(0).jobs.contains("gpt-1"));
}

}  // namespace
}  // namespace monsoon
