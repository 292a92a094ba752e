// A coordinator whose state folder is not the newest one.
#include "coordinator/core/core_restores_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::CoreRestoresTest;
using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CoreJournalTest : public CoreRestoresTest {
 protected:
  // A job runs, whose coordinator dies; the shards have heard of so many commits.
  void StartAndDie(uint64_t commits) {
    h_.core().journal()->Begin("/state/coordinator", 0);
    StartWithAGeneration();
    h_.core().journal()->NoteCommits(commits, true);
    mark_ = *h_.core().journal()->mark();
    for (uint32_t shard = 0; shard < 2; ++shard) {
      h_.shard(shard).journal = mark_;
    }
    copied_ = h_.UpdatesThatMatter();
    h_.RestartCoordinator();
  }
  uint64_t term() { return h_.core().state().snapshot().term(); }
  std::string WaitsFor() { return h_.core().journal()->waits_for(); }

  JournalMark mark_;
  size_t copied_ = 0;  // updates, by then
};

TEST_F(CoreJournalTest, TheNewestFolderIsGoneOnFrom) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 40);
  EXPECT_EQ(h_.core().journal()->mark()->id(), mark_.id());
  EXPECT_GT(h_.core().journal()->mark()->life(), mark_.life());
  Pass(1);
  EXPECT_EQ(WaitsFor(), "");
  EXPECT_EQ(h_.Reason(), "");
  ASSERT_OK(h_.Ask(0));
}

TEST_F(CoreJournalTest, WithAnOlderCopyNothingIsDone) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.Poll();
  EXPECT_THAT(WaitsFor(), StartsWith("coordinator/0's state folder with commit 40, of which ps/0 "
                                     "has heard; found: an older copy, with commit 39 (found in "
                                     "/state/coordinator): put the right folder back"));
  EXPECT_EQ(h_.Reason(), absl::StrCat("waits for ", WaitsFor()));
  EXPECT_EQ(h_.core().List(h_.now()).waits_for(), WaitsFor());
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u);
  const auto waits = HasSubstr("the coordinator waits for coordinator/0's state folder");
  EXPECT_THAT(h_.Ask(0), StatusIs(absl::StatusCode::kUnavailable, waits));
  EXPECT_THAT(h_.core().Heartbeat(h_.HeartbeatOf(0), h_.now()),
              StatusIs(absl::StatusCode::kUnavailable, waits));
  EXPECT_THAT(h_.core().Cancel("j-1", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, waits));
  EXPECT_THAT(h_.core().GiveUp("ps/0", "ann", h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, waits));
  // However long it takes, nobody is lost by it.
  h_.Pass(absl::Seconds(100), {});
  EXPECT_EQ(h_.State(), RUNNING);
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u);
}

TEST_F(CoreJournalTest, AnEmptyFolderIsAnotherOne) {
  StartAndDie(40);
  h_.RestartCoordinator(0);
  h_.core().journal()->Begin("/state/coordinator", 0);
  EXPECT_NE(h_.core().journal()->mark()->id(), mark_.id());
  h_.Poll();
  EXPECT_THAT(WaitsFor(), HasSubstr("found: none"));
  EXPECT_THAT(h_.core().Submit(h_.Plan(2), {}, h_.now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("give-up coordinator/0")));
}

TEST_F(CoreJournalTest, NoShardIsToldAnythingBeforeOneHasAnswered) {
  h_.core().journal()->Begin("/state/coordinator", 0);
  StartWithAGeneration();
  h_.Leave(0);  // its session is to be closed
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 40);
  EXPECT_FALSE(h_.core().journal()->MayAct());
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u);
  h_.Poll();
  EXPECT_TRUE(h_.core().journal()->MayAct());
  EXPECT_GT(h_.core().TakeCommands(h_.now()).size(), 0u);
}

TEST_F(CoreJournalTest, NobodyIsToldThatAJobIsGoneBeforeAShardHasAnswered) {
  StartAndDie(40);
  h_.RestartCoordinator(0);
  h_.core().journal()->Begin("/state/coordinator", 0);
  h_.guest_[7] = 7001;
  HeartbeatRequest beat = h_.HeartbeatOf(7);
  beat.set_enters_job("gpt-1");
  JobPlan plan = h_.Plan(1);
  EnterRequest enter;
  enter.mutable_job()->set_name("gpt-1");
  enter.set_only_enter(true);
  const auto unheard =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no parameter server has answered yet"));
  EXPECT_THAT(h_.core().Heartbeat(beat, h_.now()), unheard);
  EXPECT_THAT(h_.core().Enter(enter, plan, h_.now()), unheard);
  h_.Poll();
  const auto waits =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("waits for coordinator/0's state folder"));
  EXPECT_THAT(h_.core().Heartbeat(beat, h_.now()), waits);
  EXPECT_THAT(h_.core().Enter(enter, plan, h_.now()), waits);
  ASSERT_OK(h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  ASSERT_OK_AND_ASSIGN(const HeartbeatReply gone, h_.core().Heartbeat(beat, h_.now()));
  EXPECT_EQ(gone.job_ended(), FAILED);
  EXPECT_THAT(h_.core().Enter(enter, plan, h_.now()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("gpt-1")));
}

TEST_F(CoreJournalTest, AWorkerMayBeTheOnlyOneThatHasHeard) {
  StartAndDie(40);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    h_.shard(shard).journal.Clear();
  }
  h_.core().journal()->Begin("/state/coordinator", 30);
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "");
  ASSERT_OK(h_.core().Checkpoint("j-1", h_.now()));
  HeartbeatRequest beat = h_.HeartbeatOf(0);
  *beat.mutable_journal() = mark_;
  EXPECT_THAT(h_.core().Heartbeat(beat, h_.now()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("of which worker/0 has heard")));
  EXPECT_NE(WaitsFor(), "");
  EXPECT_EQ(h_.core().TakeCommands(h_.now()).size(), 0u) << "what was on its way, too";
}

TEST_F(CoreJournalTest, WorkersWaitUntilAShardHasSaidWhatItHeard) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 40);
  EXPECT_THAT(h_.Ask(0), StatusIs(absl::StatusCode::kUnavailable,
                                  HasSubstr("no parameter server has answered yet")));
  h_.Poll();
  ASSERT_OK(h_.Ask(0));
}

TEST_F(CoreJournalTest, WorkersHearOfAJournalOnceAShardHasSaidWhatItHeard) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 40);
  h_.core().journal()->NoteCommits(41, true);
  h_.Poll();
  ASSERT_OK_AND_ASSIGN(HeartbeatReply reply, h_.core().Heartbeat(h_.HeartbeatOf(0), h_.now()));
  EXPECT_EQ(reply.journal().id(), mark_.id());
  // Without jobs workers need not wait, but they would hold this folder against the right one.
  h_.RestartCoordinator(0);
  h_.core().journal()->Begin("/state/coordinator", 0);
  ASSERT_OK_AND_ASSIGN(reply, h_.core().Heartbeat(h_.HeartbeatOf(0), h_.now()));
  EXPECT_FALSE(reply.has_journal());
}

TEST_F(CoreJournalTest, GivenUpItsUnfinishedJobsFailAndOthersMayCome) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.Poll();
  ASSERT_OK_AND_ASSIGN(const GiveUpReply reply,
                       h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  EXPECT_THAT(reply.job(), ElementsAre("j-1"));
  EXPECT_EQ(WaitsFor(), "");
  const JournalMark mark = *h_.core().journal()->mark();
  EXPECT_EQ(mark.replaces(), mark_.id());
  EXPECT_NE(mark.id(), mark_.id());
  Pass(1);
  EXPECT_EQ(h_.State(), FAILED);
  EXPECT_THAT(h_.Reason(), StartsWith("ann@desk has given up coordinator/0's state folder with "
                                      "commit 40 (it goes on from an older copy, with commit 39)"));
  EXPECT_EQ(WaitsFor(), "") << "shards may still tell of what was given up";
  // The next life has it from its journal.
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 45);
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "");
  EXPECT_EQ(h_.core().journal()->mark()->id(), mark.id());
}

TEST_F(CoreJournalTest, LivesOfAFolderAndOfItsOlderCopyHaveTermsOfTheirOwn) {
  h_.SetWallClockAhead(-absl::Seconds(500));  // it is behind the last term
  StartAndDie(40);
  const uint64_t newer = term();
  h_.RestartCoordinator(copied_);
  EXPECT_GT(term(), mark_.life());
  EXPECT_NE(term(), newer) << "an incarnation of the one would be taken for one of the other";
}

TEST_F(CoreJournalTest, ATermAloneDoesNotShowThatTheFolderIsTheNewest) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.core().journal()->NoteCommits(45, true);
  JournalMark told = *h_.core().journal()->mark();
  h_.core().journal()->Hear("ps/0", told);
  EXPECT_EQ(WaitsFor(), "");
  told.set_commits(46);
  h_.core().journal()->Hear("ps/0", told);
  EXPECT_NE(WaitsFor(), "") << "it has not told of so many";
}

TEST_F(CoreJournalTest, WhatIsNumberedAfterItIsGivenUpIsNobodysOfBefore) {
  StartAndDie(40);
  mark_.set_life(term() + 5000000);  // a life whose clock was ahead
  h_.shard(0).journal = h_.shard(1).journal = mark_;
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.Poll();
  JournalMark unbelievable = mark_;
  unbelievable.set_life(UINT64_MAX);
  h_.core().journal()->Hear("worker/0", unbelievable);
  ASSERT_OK(h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  EXPECT_GT(term(), mark_.life());
  // Jobs have the term, and sessions that of their job.
  h_.Submit(h_.Plan(1));
  EXPECT_EQ(h_.core().state().snapshot().job().rbegin()->term(), term());
  // A worker holds what the newer state has given it.
  h_.incarnation_[0] = 9;
  EXPECT_TRUE(h_.Beat(0).rejoin());
  h_.Beat(0);
  EXPECT_EQ(h_.incarnation_[0], 10u);
}

// Each life that is started on it adds commits.
TEST_F(CoreJournalTest, AnOlderCopyStaysOneHoweverOftenItIsStarted) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.Poll();
  ASSERT_NE(WaitsFor(), "");
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 60);
  h_.Poll();
  EXPECT_NE(WaitsFor(), "");
  ASSERT_OK(h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 62);
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "");
}

// Of a copy that no shard has answered nobody knows yet that it is one.
TEST_F(CoreJournalTest, AnOlderCopyIsKnownByWhatItsLivesHaveLeft) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 60);
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 80);
  h_.Poll();
  EXPECT_THAT(WaitsFor(), HasSubstr("commit 40, of which ps/0 has heard; found: an older copy, "
                                    "with commit 80 and without that one (found in"));
}

TEST_F(CoreJournalTest, AnOlderCopyIsKnownByTheLifeThatItLacks) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 40);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    h_.shard(shard).journal = *h_.core().journal()->mark();
  }
  h_.Pass(absl::Seconds(1), {});
  const std::vector<StateUpdate> newest = h_.updates_;
  h_.RestartCoordinator(copied_);
  h_.core().journal()->Begin("/state/coordinator", 60);
  h_.Poll();
  EXPECT_NE(WaitsFor(), "");
  h_.updates_ = newest;
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 45);
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 50);
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "") << "nobody has heard of the life between";
  // One that began before any that the journal knows, in a coordinator of before.
  JournalMark old = mark_;
  old.set_life(1);
  h_.core().journal()->Hear("worker/0", old);
  EXPECT_NE(WaitsFor(), "") << "it had 40 commits, and the first life here began with none";
}

// What a wrong folder has told would keep the right one out.
TEST_F(CoreJournalTest, OthersAreToldOfAJournalOnceTheyHaveSaidWhatTheyHeard) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 40);
  EXPECT_FALSE(h_.core().journal()->MarkFor(1).has_value());
  EXPECT_FALSE(h_.core().journal()->MarkForWorkers().has_value());
  h_.core().OnPoll(0, h_.core().BeginPoll(), h_.Status(0), h_.now());
  EXPECT_FALSE(h_.core().journal()->MarkFor(0).has_value()) << "the next life would not know this";
  h_.core().journal()->NoteCommits(41, true);
  EXPECT_TRUE(h_.core().journal()->MarkFor(0).has_value());
  EXPECT_FALSE(h_.core().journal()->MarkFor(1).has_value());
  EXPECT_TRUE(h_.Beat(0).has_journal());
  h_.RestartCoordinator(0);
  h_.core().journal()->Begin("/state/coordinator", 0);
  ASSERT_OK_AND_ASSIGN(const HeartbeatReply told, h_.core().Heartbeat(h_.HeartbeatOf(0), h_.now()));
  EXPECT_FALSE(told.has_journal()) << "no shard has answered";
  h_.core().journal()->NoteCommits(1, true);
  EXPECT_FALSE(h_.core().journal()->MarkFor(0).has_value()) << "it has not answered";
  h_.Poll();
  EXPECT_FALSE(h_.core().journal()->MarkFor(0).has_value()) << "it waits for another";
  EXPECT_FALSE(h_.core().journal()->MarkForWorkers().has_value());
}

// The next life would wait for a journal that never was.
TEST_F(CoreJournalTest, ANameIsToldOnceItIsKept) {
  StartAndDie(40);
  h_.core().journal()->Begin("/state/coordinator", 39);
  h_.Poll();
  ASSERT_OK(h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  h_.core().journal()->NoteCommits(40, false);
  EXPECT_FALSE(h_.core().journal()->MarkFor(0).has_value());
  EXPECT_FALSE(h_.core().journal()->MarkForWorkers().has_value());
  h_.core().journal()->NoteCommits(41, true);
  EXPECT_TRUE(h_.core().journal()->MarkFor(0).has_value());
  EXPECT_TRUE(h_.core().journal()->MarkForWorkers().has_value());
}

// A shard that had heard of none has heard of this one since.
TEST_F(CoreJournalTest, AnotherFolderKeepsItsNameWhereTheNewerOneIsGivenUp) {
  StartAndDie(40);
  h_.RestartCoordinator(0);
  h_.core().journal()->Begin("/state/coordinator", 0);
  h_.shard(0).journal = *h_.core().journal()->mark();
  h_.Poll();
  ASSERT_NE(WaitsFor(), "");
  ASSERT_OK(h_.core().GiveUp("coordinator/0", "ann@desk", h_.now()));
  EXPECT_EQ(h_.core().journal()->mark()->replaces(), mark_.id());
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "");
  h_.RestartCoordinator();
  h_.core().journal()->Begin("/state/coordinator", 5);
  h_.Poll();
  EXPECT_EQ(WaitsFor(), "");
}

TEST_F(CoreJournalTest, WithoutAJournalNobodyIsGuarded) {
  StartAndDie(40);
  Pass(1);
  EXPECT_FALSE(h_.core().journal()->mark().has_value());
  EXPECT_EQ(WaitsFor(), "");
  EXPECT_EQ(h_.State(), RUNNING);
}

}  // namespace
}  // namespace monsoon
