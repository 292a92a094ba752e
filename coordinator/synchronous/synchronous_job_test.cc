#include "coordinator/synchronous/synchronous_job.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "coordinator/synchronous/synchronous_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::TestedGroup;
using ::monsoon::testing::TestedMember;
using ::monsoon::testing::TestedState;
using ::monsoon::testing::TestedSteps;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Phase = JobProcedure::Phase;

// 10 batches an epoch.
SynchronousOptions TenBatches(double epochs, uint32_t workers) {
  SynchronousOptions options;
  options.examples = 98;
  options.batch_size = 10;
  options.stop.set_epochs(epochs);
  options.workers = workers;
  options.patience = absl::Seconds(3);
  options.store_every = absl::Seconds(10);
  return options;
}

// Each batch below `end` is in exactly one step, in order.
void ExpectWhole(const TestedState& state, uint64_t end) {
  uint64_t next = 0;
  for (const auto& [from, to] : state.steps) {
    EXPECT_EQ(from, next);
    EXPECT_GT(to, from);
    next = to;
  }
  EXPECT_EQ(next, end);
  EXPECT_EQ(state.at.batches(), end);
  EXPECT_EQ(state.at.updates(), state.steps.size());
}

std::vector<std::string> EventsOf(SynchronousJob* job, const std::string& kind) {
  std::vector<std::string> texts;
  for (const JobProcedure::JobEvent& event : job->TakeEvents()) {
    if (event.kind == kind) {
      texts.push_back(event.text);
    }
  }
  return texts;
}

TEST(SynchronousJobTest, TakesAllBatchesInOrderAndStoresTheEnd) {
  TestedGroup group(TenBatches(2, 3));
  for (const uint32_t worker : {0, 1, 2}) {
    group.Add(worker);
  }
  group.Finish();
  ExpectWhole(group.stored(), 20);
  // Steps of three batches; the last one has what is left.
  EXPECT_EQ(group.stored().steps.size(), 7u);
  EXPECT_THAT(group.stored().steps.back(), Pair(18, 20));
  EXPECT_EQ(group.durable().broken(), 0u);
  EXPECT_DOUBLE_EQ(group.job().epoch(), 2.0);
}

TEST(SynchronousJobTest, WaitsAMomentForThoseWhoAreExpected) {
  TestedGroup group(TenBatches(1, 2));
  group.Add(0);
  EXPECT_TRUE(group.Ask(0).has_wait());
  group.Pass(absl::Seconds(1));
  EXPECT_TRUE(group.Ask(0).has_wait());
  group.Pass(absl::Seconds(1));
  const NextWorkReply alone = group.Ask(0);
  ASSERT_TRUE(alone.has_synchronize());
  EXPECT_EQ(alone.synchronize().member_size(), 1);
  EXPECT_FALSE(alone.synchronize().has_source());  // what the shards have
}

TEST(SynchronousJobTest, AReplicaThatReadsItsDataHoldsNobodyUp) {
  TestedGroup group(TenBatches(1, 1));
  group.Add(0);
  group.Ask(0);
  ASSERT_TRUE(group.Step());
  group.Add(1);
  while (group.Step()) {
  }
  EXPECT_TRUE(group.Ask(0).has_synchronize());  // more steps of the old group
  while (group.Step()) {
  }
  group.Ask(1);
  EXPECT_TRUE(group.Ask(0).has_synchronize());  // of the next one
  EXPECT_EQ(group.at(0).order.member_size(), 2);
  EXPECT_TRUE(group.at(0).order.share());
  EXPECT_EQ(group.at(0).order.source(), 0u);
}

TEST(SynchronousJobTest, AGroupIsNewToTheProcessesOfItsMembers) {
  TestedGroup group(TenBatches(1, 2));
  group.Add(0);
  group.Add(1);
  group.at(1).newest_group = 6;  // of an earlier job
  group.Ask(0);
  group.Ask(1);
  EXPECT_EQ(group.durable().group().generation(), 7u);
  group.Finish();
  ExpectWhole(group.stored(), 10);
}

TEST(SynchronousJobTest, AStepThatNobodyHadWholeIsTakenAgainWithoutTheLost) {
  TestedGroup group(TenBatches(1, 3));
  group.Gather(3);
  ASSERT_TRUE(group.Step());
  ASSERT_TRUE(group.Step());
  group.Lose(1);
  EXPECT_TRUE(group.Ask(0).has_wait());  // worker/2 may be at the step still
  EXPECT_TRUE(group.Ask(2).has_synchronize());
  EXPECT_TRUE(group.Ask(0).has_synchronize());
  EXPECT_FALSE(group.at(0).order.share());
  EXPECT_EQ(group.at(0).order.from().batches(), 3u);
  group.Finish();
  ExpectWhole(group.stored(), 10);
  EXPECT_THAT(group.stored().steps,
              ElementsAre(Pair(0, 3), Pair(3, 5), Pair(5, 7), Pair(7, 9), Pair(9, 10)));
  EXPECT_EQ(group.durable().broken(), 1u);
  EXPECT_EQ(group.durable().retaken(), 1u);
  EXPECT_THAT(EventsOf(&group.job(), "regrouped"),
              ElementsAre(HasSubstr("worker/0, worker/2 take steps of 2 batches from update 1 on "
                                    "(worker/1 is gone")));
}

TEST(SynchronousJobTest, WhoHadTheWholeStepGivesItToTheOthers) {
  TestedGroup group(TenBatches(1, 3));
  group.Gather(3);
  ASSERT_TRUE(group.Step());
  group.Lose(1, /*whole=*/{2});
  group.Ask(0);
  EXPECT_TRUE(group.Ask(2).has_synchronize());
  EXPECT_TRUE(group.at(2).order.share());
  EXPECT_EQ(group.at(2).order.source(), 1u);
  group.Finish();
  ExpectWhole(group.stored(), 10);
  EXPECT_THAT(group.stored().steps.front(), Pair(0, 3));
}

TEST(SynchronousJobTest, NobodyLeftGoesOnFromWhatTheShardsHave) {
  TestedGroup group(TenBatches(100, 1));
  group.Add(0);
  group.Ask(0);
  ASSERT_TRUE(group.Step());
  while (group.Step()) {
  }
  group.Pass(absl::Seconds(11));
  group.Ask(0);
  group.Work(0);
  const TestedState written = *group.at(0).state;
  while (group.Step()) {
  }
  group.Ask(0);  // tells that it is written
  ASSERT_TRUE(group.Adopt());
  EXPECT_GT(group.at(0).state->at.updates(), group.stored().at.updates());
  group.Lose(0);
  group.Add(1);
  ASSERT_TRUE(group.Ask(1).has_synchronize());
  ASSERT_TRUE(group.Step());
  EXPECT_EQ(group.at(1).state->steps, written.steps);
  EXPECT_THAT(EventsOf(&group.job(), "went_back"), ElementsAre(HasSubstr("nobody is left")));
}

TEST(SynchronousJobTest, AStateThatSomebodyLacksIsNotTakenForStored) {
  TestedGroup group(TenBatches(100, 2));
  group.Gather(2);
  ASSERT_TRUE(group.Step());
  while (group.Step()) {
  }
  group.Pass(absl::Seconds(11));
  group.Ask(0);
  group.Ask(1);
  ASSERT_GT(group.at(0).order.write(), 0u);
  // It writes what it alone may have by now.
  group.at(0).writing->at.set_updates(group.at(0).state->at.updates() + 1);
  group.at(0).writing->at.set_batches(group.at(0).state->at.batches() + 2);
  group.Work(0);
  ASSERT_TRUE(group.Step());
  group.Ask(0);
  EXPECT_EQ(group.durable().written(), 0u);
}

TEST(SynchronousJobTest, TheTestSetIsRunWhileAllStandAtOneStep) {
  SynchronousOptions options = TenBatches(3, 2);
  options.has_test = true;
  options.evaluate_every_epochs = 1;
  TestedGroup group(options);
  group.Add(0);
  group.Add(1);
  group.Finish();
  std::vector<double> epochs;
  for (const TestResult& result : group.job().test_results()) {
    epochs.push_back(result.epoch);
  }
  EXPECT_THAT(epochs, ElementsAre(1.0, 2.0, 3.0));
}

TEST(SynchronousJobTest, EndsInTimeAndStoresWhatIsDone) {
  SynchronousOptions options = TenBatches(0, 1);
  options.stop.clear_epochs();
  options.stop.set_seconds(5);
  TestedGroup group(options);
  group.Add(0);
  group.Finish();
  ASSERT_GT(group.stored().at.batches(), 0u);
  ExpectWhole(group.stored(), group.durable().done().batches());
}

TEST(SynchronousJobTest, ASlowMemberIsWaitedForLonger) {
  TestedGroup group(TenBatches(10, 2));
  group.Gather(2);
  ASSERT_TRUE(group.Step());
  EXPECT_EQ(group.at(0).order.patience_ms(), 3000u);
  const auto break_after = [&](uint32_t waited_ms) {
    for (const uint32_t worker : {0, 1}) {
      TestedMember& member = group.at(worker);
      member.broken = absl::StrCat("broken after ", waited_ms, " ms");
      member.waited_ms = worker == 0 ? waited_ms : 0;
      member.in_group = false;
      group.Ask(worker);
    }
    group.Ask(0);
    return group.at(0).order.patience_ms();
  };
  EXPECT_EQ(break_after(3000), 6000u);
  EXPECT_EQ(break_after(6100), 12000u);
  EXPECT_EQ(break_after(20), 3000u);  // nobody was slow
}

TEST(SynchronousJobTest, AMemberThatWasGoneAndIsBackIsNotSlow) {
  TestedGroup group(TenBatches(10, 2));
  group.Gather(2);
  ASSERT_TRUE(group.Step());
  for (int i = 0; i < 3; ++i) {
    group.at(0).waited_ms = 3000;
    group.Lose(1);
    group.Add(1);
    for (const uint32_t worker : {0, 1, 0}) {
      group.Ask(worker);
    }
    EXPECT_EQ(group.at(0).order.member_size(), 2);
    EXPECT_EQ(group.at(0).order.patience_ms(), 3000u);
  }
}

// Members come, die at any moment and write; the coordinator and the shards' state come and go.
class SynchronousScheduleTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SynchronousScheduleTest, EachBatchCountsOnceAndAllHaveTheSame) {
  std::mt19937 random(GetParam());
  const auto chance = [&](uint32_t of) { return random() % of == 0; };
  SynchronousOptions options = TenBatches(6, 1 + random() % 4);
  options.has_test = chance(2);
  options.evaluate_every_epochs = 0.7;
  options.store_every = absl::Milliseconds(200);
  TestedGroup group(options);
  uint32_t next = 0;
  for (uint32_t i = 0; i < options.workers; ++i) {
    group.Add(next++);
  }
  for (int i = 0; i < 400 && group.job().phase() < Phase::kFinalEvaluation; ++i) {
    std::vector<uint32_t> live;
    for (const auto& [worker, member] : group.members()) {
      live.push_back(worker);
    }
    if (live.empty() || (live.size() < 5 && chance(20))) {
      group.Add(next++);
      continue;
    }
    const uint32_t worker = live[random() % live.size()];
    if (chance(25)) {
      std::vector<uint32_t> whole;
      std::ranges::copy_if(live, std::back_inserter(whole), [&](uint32_t) { return chance(2); });
      group.Lose(worker, whole);
    } else if (chance(40)) {
      group.Restart();
    } else if (chance(3)) {
      group.Step();
    } else if (chance(3)) {
      group.Work(worker);
    } else if (chance(4)) {
      group.Adopt();
    } else if (chance(2) || !group.at(worker).runs()) {
      group.Ask(worker);
    }
    group.Pass(absl::Milliseconds(random() % 50));
    // Whoever has come as far has the same.
    std::map<uint64_t, TestedSteps> states;
    for (const auto& [each, member] : group.members()) {
      if (member.state && member.in_group && member.joined &&
          member.order.group() == group.durable().group().generation()) {
        const auto& steps = states.try_emplace(member.state->at.updates(), member.state->steps);
        ASSERT_EQ(steps.first->second, member.state->steps) << "worker/" << each;
      }
    }
  }
  if (group.members().empty()) {
    group.Add(next++);
  }
  group.Finish();
  ExpectWhole(group.stored(), 60);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SynchronousScheduleTest, ::testing::Range(0u, 300u));

}  // namespace
}  // namespace monsoon
