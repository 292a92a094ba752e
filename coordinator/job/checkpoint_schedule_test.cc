#include "coordinator/job/checkpoint_schedule.h"

#include <optional>

#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ReplayedState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Activity = CheckpointSchedule::Activity;

constexpr absl::Duration kStart = absl::Seconds(100);

Checkpoint Every(double seconds, uint64_t pushes = 0) {
  Checkpoint config;
  config.set_every_seconds(seconds);
  config.set_every_pushes(pushes);
  return config;
}

class CheckpointScheduleTest : public ::testing::Test {
 protected:
  void Make(const Checkpoint& config) { schedule_.emplace(state_.Job(), config, 2); }
  CheckpointSchedule& schedule() { return *schedule_; }
  const CheckpointState& state() { return schedule_->state(); }

  static absl::Duration At(double seconds) { return kStart + absl::Seconds(seconds); }
  void Show(uint32_t shard, uint64_t generation, uint64_t version, double seconds,
            const std::string& error = "") {
    ShardJobStatus status;
    status.set_generation(generation);
    status.set_version_min(version);
    status.set_checkpoint_error(error);
    schedule_->NoteShard(shard, status, At(seconds));
  }
  void ShowAll(uint64_t generation, uint64_t version, double seconds) {
    Show(0, generation, version, seconds);
    Show(1, generation, version, seconds);
  }
  std::optional<std::string> Wanted(double seconds, Activity activity = Activity::kTrains) {
    return schedule_->Wanted(activity, kStart, At(seconds));
  }
  void Order(double seconds, bool at_end = false) {
    CheckpointContext context;
    context.set_reason("a test");
    schedule_->Order(std::move(context), at_end, At(seconds));
  }
  std::vector<uint32_t> Due(double seconds, bool ended = false) {
    return schedule_->Due(ended, At(seconds));
  }
  void Answer(uint32_t shard, uint64_t generation, const absl::Status& status, double seconds) {
    schedule_->OnResult(shard, generation, status, At(seconds));
  }
  std::vector<std::string> Events() {
    std::vector<std::string> kinds;
    for (const CheckpointSchedule::Event& event : schedule_->TakeEvents()) {
      kinds.push_back(event.task.empty() ? event.kind : event.kind + " " + event.task);
    }
    return kinds;
  }

  ReplayedState state_;
  std::optional<CheckpointSchedule> schedule_;
};

TEST_F(CheckpointScheduleTest, OneIsDueAfterSoManySecondsOfTraining) {
  Make(Every(10));
  ShowAll(0, 5, 1);
  EXPECT_EQ(Wanted(9.9), std::nullopt);
  EXPECT_EQ(Wanted(10), "every 10 s");
  Order(12);
  ShowAll(1, 6, 12.5);
  ShowAll(1, 8, 13);
  EXPECT_EQ(state().held(), 1u);
  // From the last order on, not from when it was held.
  EXPECT_EQ(Wanted(21.9), std::nullopt);
  EXPECT_EQ(Wanted(22), "every 10 s");
}

TEST_F(CheckpointScheduleTest, NothingIsDueUnlessSomethingWasApplied) {
  Make(Every(10));
  EXPECT_EQ(Wanted(20), std::nullopt) << "no shard has said anything";
  Show(0, 0, 5, 20);
  EXPECT_EQ(Wanted(20), std::nullopt) << "one shard has said nothing";
  Show(1, 0, 0, 20);
  EXPECT_EQ(Wanted(20), std::nullopt) << "one shard has applied nothing";
  Show(1, 0, 3, 20);
  EXPECT_EQ(Wanted(20), "every 10 s");
  Order(20);
  ShowAll(1, 5, 20.1);
  Show(1, 1, 3, 20.1);  // the slowest is where it was
  EXPECT_EQ(Wanted(40), std::nullopt);
  Show(1, 1, 4, 20.1);
  EXPECT_EQ(Wanted(40), "every 10 s");
}

TEST_F(CheckpointScheduleTest, OnlyWhileTheJobTrains) {
  Make(Every(10, 1));
  ShowAll(0, 5, 20);
  EXPECT_EQ(Wanted(20, Activity::kStill), std::nullopt);
  EXPECT_EQ(Wanted(20, Activity::kBusy), std::nullopt);
  EXPECT_EQ(Wanted(20, Activity::kTrains), "every 10 s");
}

TEST_F(CheckpointScheduleTest, OneIsDueAfterSoManyPushesOfTheSlowestShard) {
  Make(Every(1000, 50));
  Show(0, 0, 80, 1);
  Show(1, 0, 49, 1);
  EXPECT_EQ(Wanted(1), std::nullopt);
  Show(1, 0, 50, 1);
  EXPECT_EQ(Wanted(1), "every 50 pushes");
  Order(1);
  ShowAll(1, 99, 1.1);
  EXPECT_EQ(Wanted(5), std::nullopt);
  ShowAll(1, 100, 5);
  EXPECT_EQ(Wanted(5), "every 50 pushes");
}

TEST_F(CheckpointScheduleTest, AClientsParametersCountFromWhereTheyAre) {
  StateUpdate submitted;
  submitted.set_job("w-1");
  submitted.mutable_job_submitted()->set_number(1);
  submitted.mutable_job_submitted()->set_init(true);
  state_.writer()->Apply(submitted);
  schedule_.emplace(state_.Job("w-1"), Every(1000, 50), 2);
  Show(0, 0, 1000, 1);
  Show(1, 0, 1000, 1);
  EXPECT_EQ(Wanted(1), std::nullopt);
  ShowAll(0, 1049, 2);
  EXPECT_EQ(Wanted(2), std::nullopt);
  ShowAll(0, 1050, 2);
  EXPECT_EQ(Wanted(2), "every 50 pushes");
}

TEST_F(CheckpointScheduleTest, NeverBeforeTenTimesAsLongAsTheLastOneTook) {
  Make(Every(1, 10));
  ShowAll(0, 100, 1);
  Order(1);
  ShowAll(1, 200, 4);  // it took 3 s
  EXPECT_EQ(Wanted(30.9), std::nullopt);
  EXPECT_EQ(Wanted(31), "every 1 s");
  // A quick one makes way for the next one.
  Order(31);
  ShowAll(2, 300, 31.05);
  EXPECT_EQ(Wanted(31.9), "every 10 pushes");
}

TEST_F(CheckpointScheduleTest, OneIsUnderWayAtATime) {
  Make(Every(1, 1));
  ShowAll(0, 5, 1);
  Order(1);
  EXPECT_EQ(schedule().Request(/*over=*/false), 2u);
  Show(0, 1, 500, 50);
  Show(1, 0, 500, 50);
  EXPECT_TRUE(schedule().under_way());
  for (const Activity activity :
       {Activity::kTrains, Activity::kStill, Activity::kBusy, Activity::kOver}) {
    EXPECT_EQ(Wanted(100, activity), std::nullopt);
  }
  Show(1, 1, 500, 51);
  EXPECT_FALSE(schedule().under_way());
  EXPECT_EQ(state().held(), 1u);
}

TEST_F(CheckpointScheduleTest, AnOrderIsRepeatedToShardsThatDoNotShowIt) {
  Make(Every(10));
  EXPECT_THAT(Due(0), IsEmpty());
  Order(1);
  EXPECT_THAT(Due(1), ElementsAre(0, 1));
  EXPECT_THAT(Due(9), IsEmpty()) << "no answer yet";
  Answer(0, 1, absl::OkStatus(), 2);
  Answer(1, 1, absl::DeadlineExceededError("no answer"), 2);
  EXPECT_THAT(Due(2.9), IsEmpty());
  EXPECT_THAT(Due(3), ElementsAre(0, 1));
  Answer(0, 1, absl::OkStatus(), 3);
  Answer(1, 1, absl::OkStatus(), 3);
  Show(0, 1, 5, 3.5);
  EXPECT_THAT(Due(4), ElementsAre(1)) << "ps/0 shows it";
  Answer(1, 1, absl::OkStatus(), 4);
  Show(1, 1, 5, 4.5);
  EXPECT_THAT(Due(10), IsEmpty());
  EXPECT_EQ(state().held(), 1u);
}

TEST_F(CheckpointScheduleTest, ALateAnswerToAnEarlierOrderMeansNothing) {
  Make(Every(10));
  Order(1);
  EXPECT_THAT(Due(1), ElementsAre(0, 1));
  ShowAll(1, 5, 1.5);
  Order(2);
  EXPECT_THAT(Due(2), ElementsAre(0, 1));
  Answer(0, 1, absl::FailedPreconditionError("an old one"), 2.1);
  EXPECT_THAT(Due(4), IsEmpty());
  EXPECT_EQ(schedule().error(), "");
  Answer(0, 2, absl::UnavailableError("lost"), 4);
  EXPECT_THAT(Due(5), ElementsAre(0));
}

TEST_F(CheckpointScheduleTest, WhatIsAskedForBeginsAfterTheRequest) {
  Make(Every(1000));
  EXPECT_EQ(Wanted(1), std::nullopt);
  EXPECT_EQ(schedule().Request(false), 1u);
  EXPECT_EQ(schedule().Request(false), 1u) << "safe to repeat";
  EXPECT_EQ(Wanted(1, Activity::kBusy), std::nullopt);
  EXPECT_EQ(Wanted(1, Activity::kStill), "asked for");
  EXPECT_EQ(Wanted(1), "asked for");
  Order(1);
  // What is under way does not count.
  EXPECT_EQ(schedule().Request(false), 2u);
  ShowAll(1, 5, 2);
  EXPECT_EQ(Wanted(2), "asked for");
  Order(2);
  ShowAll(2, 5, 3);
  EXPECT_EQ(Wanted(3), std::nullopt);
  EXPECT_EQ(schedule().Request(false), 3u);
}

TEST_F(CheckpointScheduleTest, TheLastOneIsOrderedOnce) {
  Make(Every(1000));
  EXPECT_EQ(Wanted(1, Activity::kOver), "the job's end");
  Order(1, /*at_end=*/true);
  EXPECT_FALSE(schedule().last_is_held());
  EXPECT_EQ(schedule().Request(/*over=*/true), 1u) << "nothing comes after it";
  ShowAll(1, 5, 2);
  EXPECT_TRUE(schedule().last_is_held());
  EXPECT_EQ(Wanted(2, Activity::kOver), std::nullopt);
  EXPECT_EQ(schedule().Request(true), 1u);
  EXPECT_EQ(Wanted(2, Activity::kStill), std::nullopt);
}

TEST_F(CheckpointScheduleTest, AnEarlierOneIsNotTheLast) {
  Make(Every(1000));
  Order(1);
  ShowAll(1, 5, 2);
  EXPECT_FALSE(schedule().last_is_held());
  EXPECT_EQ(Wanted(2, Activity::kOver), "the job's end");
}

TEST_F(CheckpointScheduleTest, AfterTheEndOnlyWhatWasAskedForIsRepeated) {
  Make(Every(1000));
  Order(1, true);
  EXPECT_THAT(Due(1, /*ended=*/true), IsEmpty());
  EXPECT_EQ(schedule().Request(true), 1u);
  EXPECT_THAT(Due(1, /*ended=*/true), ElementsAre(0, 1));
  ShowAll(1, 5, 2);
  EXPECT_TRUE(schedule().last_is_held());
}

TEST_F(CheckpointScheduleTest, OffMeansNone) {
  Checkpoint off;
  off.set_off(true);
  Make(off);
  ShowAll(0, 100, 1);
  for (const Activity activity : {Activity::kTrains, Activity::kStill, Activity::kOver}) {
    EXPECT_EQ(Wanted(100, activity), std::nullopt);
  }
}

TEST_F(CheckpointScheduleTest, AnErrorIsToldOnceUntilOneIsWritten) {
  Make(Every(10));
  Order(1);
  Show(1, 0, 5, 2, "disk full");
  EXPECT_EQ(schedule().error(), "ps/1: disk full");
  // While it is tried again the shard says nothing.
  Show(1, 0, 5, 3);
  EXPECT_EQ(schedule().error(), "ps/1: disk full");
  Show(1, 0, 5, 4, "disk still full");
  EXPECT_EQ(schedule().error(), "ps/1: disk still full");
  EXPECT_THAT(Events(), ElementsAre("checkpoint_failed ps/1"));
  ShowAll(1, 6, 5);
  EXPECT_EQ(schedule().error(), "");
  EXPECT_THAT(Events(), ElementsAre("checkpoint"));
  Order(20);
  Show(0, 1, 7, 21, "disk full");
  EXPECT_THAT(Events(), ElementsAre("checkpoint_failed ps/0"));
}

TEST_F(CheckpointScheduleTest, AnErrorOfAShardThatHasItMeansNothing) {
  Make(Every(10));
  Order(1);
  Show(0, 1, 5, 2, "left over");
  EXPECT_EQ(schedule().error(), "");
}

TEST_F(CheckpointScheduleTest, ARefusedOrderIsAnErrorAndAnUnreachedShardIsNone) {
  Make(Every(10));
  Order(1);
  EXPECT_THAT(Due(1), ElementsAre(0, 1));
  Answer(0, 1, absl::UnavailableError("nobody there"), 1);
  EXPECT_EQ(schedule().error(), "");
  Answer(1, 1, absl::FailedPreconditionError("no state folder"), 1);
  EXPECT_EQ(schedule().error(), "ps/1: no state folder");
  EXPECT_THAT(Due(2), ElementsAre(0, 1)) << "both are told again";
}

TEST_F(CheckpointScheduleTest, EventsAreOfTheFirstTheAskedForAndTheLast) {
  Make(Every(10));
  Order(1);
  ShowAll(1, 5, 2);
  EXPECT_THAT(Events(), ElementsAre("checkpoint"));
  Order(11);
  ShowAll(2, 6, 12);
  EXPECT_THAT(Events(), IsEmpty());
  schedule().Request(false);
  Order(21);
  ShowAll(3, 7, 22);
  EXPECT_THAT(Events(), ElementsAre("checkpoint"));
  Order(31);
  ShowAll(4, 8, 32);
  EXPECT_THAT(Events(), IsEmpty());
  Order(41, true);
  ShowAll(5, 9, 42);
  EXPECT_THAT(Events(), ElementsAre("checkpoint"));
}

TEST_F(CheckpointScheduleTest, TwoInARowForAReason) {
  Make(Every(1000));
  ShowAll(0, 5, 1);
  EXPECT_EQ(schedule().Request(false, "worker/2 was lost", 2), 1u);
  for (uint64_t generation = 1; generation <= 2; ++generation) {
    EXPECT_EQ(Wanted(2), "worker/2 was lost");
    Order(2);
    ShowAll(generation, 5, 3);
  }
  EXPECT_EQ(Wanted(4), std::nullopt);
}

TEST_F(CheckpointScheduleTest, ARequestFromBeforeTheLastOneIsServedByIt) {
  Make(Every(1000));
  schedule().Request(false, "worker/2 was lost", 2);
  Order(2, /*at_end=*/true);
  ShowAll(1, 5, 3);
  EXPECT_EQ(Wanted(4, Activity::kStill), std::nullopt);
}

TEST_F(CheckpointScheduleTest, AWorkerThatWaitsIsServedByALaterOrder) {
  Make(Every(1000));
  ShowAll(0, 5, 1);
  Order(1);
  schedule().NoteWaiting(3, true, At(2));
  EXPECT_EQ(Wanted(2), std::nullopt) << "one is under way";
  ShowAll(1, 5, 3);
  // It took 2 s, so others train on for 6 s.
  EXPECT_EQ(Wanted(6.9), std::nullopt);
  EXPECT_EQ(Wanted(7), "a worker waits until its pushes are durable");
  EXPECT_EQ(Wanted(4, Activity::kStill), "a worker waits until its pushes are durable");
  Order(21);
  schedule().NoteWaiting(3, true, At(22));
  ShowAll(2, 5, 23);
  schedule().NoteWaiting(3, true, At(24));
  // Where nobody trains it may not have seen it yet.
  EXPECT_EQ(Wanted(60, Activity::kStill), std::nullopt);
  EXPECT_EQ(Wanted(26.9), std::nullopt);
  EXPECT_NE(Wanted(27), std::nullopt) << "it keeps more and more";
  schedule().NoteWaiting(3, true, At(25));
  EXPECT_NE(Wanted(60, Activity::kStill), std::nullopt) << "that was not enough for it";
  schedule().NoteWaiting(3, false, At(26));
  EXPECT_EQ(Wanted(60), std::nullopt);
  EXPECT_EQ(Wanted(60, Activity::kStill), std::nullopt);
}

TEST_F(CheckpointScheduleTest, AShardThatWasStartedAnewIsToldAgainOnceItHasItsSlice) {
  Make(Every(10));
  ShowAll(0, 900, 1);
  Order(1);
  EXPECT_THAT(Due(1), ElementsAre(0, 1));
  Answer(0, 1, absl::OkStatus(), 1);
  Show(0, 1, 900, 2);
  schedule().ForgetShard(1);
  EXPECT_THAT(Due(10), IsEmpty());
  Answer(1, 1, absl::UnavailableError("of the life before"), 10);
  EXPECT_THAT(Due(20), IsEmpty());
  Show(1, 0, 100, 21);
  EXPECT_THAT(Due(21), ElementsAre(1));
  Show(1, 1, 100, 22);
  EXPECT_EQ(state().held(), 1u);
  // 900 were applied when it was ordered, and 100 are again.
  ShowAll(1, 103, 23);
  EXPECT_EQ(Wanted(40), std::nullopt) << "that is bounded by what the last one took";
  EXPECT_EQ(Wanted(300), "every 10 s");
}

TEST_F(CheckpointScheduleTest, NoneBeginsBeforeAShardThatWasStartedAnewShowsItsNumber) {
  Make(Every(10));
  ShowAll(0, 5, 1);
  schedule().ForgetShard(1);
  schedule().Request(false);
  EXPECT_EQ(Wanted(20), std::nullopt);
  Show(1, 3, 5, 21);  // It wrote them before it ended.
  EXPECT_EQ(Wanted(21), "asked for");
  Order(21);
  EXPECT_EQ(state().ordered(), 4u);
}

TEST_F(CheckpointScheduleTest, NumbersRiseAboveWhatAShardHas) {
  Make(Every(10));
  Show(1, 7, 5, 1);
  Order(1);
  EXPECT_EQ(state().ordered(), 8u);
}

TEST_F(CheckpointScheduleTest, NewSlicesBeginAnewWithHigherNumbers) {
  Make(Every(10));
  for (const JobStage stage : {JOB_CREATING, JOB_READY, JOB_ACTIVE}) {
    state_.Job().Make(
        [&](StateUpdate* update) { update->mutable_stage_changed()->set_stage(stage); });
  }
  ShowAll(0, 5, 1);
  Order(1);
  ShowAll(1, 5, 2);
  EXPECT_EQ(schedule().Request(false), 2u);
  Order(3);
  Show(0, 2, 5, 4);
  state_.Job().Make(
      [&](StateUpdate* update) { update->mutable_stage_changed()->set_stage(JOB_QUEUED); });
  schedule().ForgetShards();
  EXPECT_FALSE(schedule().under_way());
  EXPECT_EQ(state().held(), 0u);
  EXPECT_THAT(Due(5), IsEmpty());
  // What was asked for still is; a shard that kept the file of the old slice does not
  // count as holding it.
  EXPECT_EQ(Wanted(5), "asked for");
  Order(6);
  EXPECT_EQ(state().ordered(), 3u);
  Show(0, 2, 0, 7);
  Show(1, 3, 0, 7);
  EXPECT_TRUE(schedule().under_way());
}

TEST_F(CheckpointScheduleTest, LooksMoreOftenForAWhile) {
  Make(Every(10));
  EXPECT_FALSE(schedule().WantsPoll(At(0)));
  Order(1);
  int looks = 0;
  for (int ms = 0; ms < 60000; ms += 50) {
    looks += schedule().WantsPoll(At(1 + ms / 1000.0)) ? 1 : 0;
  }
  EXPECT_GE(looks, 4);
  EXPECT_LE(looks, 8);
  ShowAll(1, 5, 61);
  EXPECT_FALSE(schedule().WantsPoll(At(62)));
}

}  // namespace
}  // namespace monsoon
