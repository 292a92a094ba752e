#include "worker/session/cluster_member.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/lasting.h"
#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using testing::FakeCoordinator;

HeartbeatReply Joined(uint64_t incarnation, const std::string& job = "") {
  HeartbeatReply reply;
  reply.set_incarnation(incarnation);
  if (!job.empty()) {
    SessionKey* session = reply.mutable_assignment()->mutable_session();
    session->set_job(job);
    session->set_worker(1);
    session->set_incarnation(incarnation);
  }
  return reply;
}

class ClusterMemberTest : public ::testing::Test {
 protected:
  ClusterMemberTest() {
    coordinator_.heartbeat = [this](const HeartbeatRequest&) { return answer_; };
  }
  void Beat(absl::StatusOr<HeartbeatReply> answer) {
    answer_ = std::move(answer);
    member_.Beat();
  }
  HeartbeatRequest last() { return coordinator_.heartbeats().back(); }

  FakeCoordinator coordinator_;
  absl::StatusOr<HeartbeatReply> answer_ = HeartbeatReply();
  ClusterMember member_{{.cluster = "test", .task = 1, .pid = 42}, &coordinator_};
  StatsCollector stats_;
  ManualClock clock_;
  SessionControl control_{&clock_, absl::Seconds(3)};
};

TEST_F(ClusterMemberTest, JoinsWithZeroAndKeepsItsIncarnation) {
  Beat(absl::UnavailableError("nobody there"));
  Beat(Joined(5));
  EXPECT_EQ(last().incarnation(), 0u);
  EXPECT_EQ(last().task(), 1u);
  EXPECT_EQ(last().pid(), 42u);
  Beat(Joined(5, "a-1"));
  EXPECT_EQ(last().incarnation(), 5u);
  EXPECT_FALSE(last().has_session());
  auto assignment = member_.AwaitAssignment(absl::ZeroDuration());
  ASSERT_TRUE(assignment.has_value());
  EXPECT_EQ(assignment->session().job(), "a-1");
}

TEST_F(ClusterMemberTest, ACoordinatorOfAnotherClusterIsRefusedOnceAndForAll) {
  std::vector<absl::Status> refused;
  ClusterMember member(
      {.cluster = "test", .task = 1, .pid = 42}, &coordinator_,
      {.on_refused = [&refused](const absl::Status& status) { refused.push_back(status); }});
  absl::Status nobody = absl::UnavailableError("connection refused");
  MarkNobodyListens(&nobody);
  answer_ = nobody;
  member.Beat();
  answer_ = Joined(5);
  member.Beat();
  // Of a member it may pass.
  absl::Status others = absl::UnavailableError("not signed by the authority");
  MarkLasting(&others);
  answer_ = others;
  member.Beat();
  EXPECT_TRUE(refused.empty());
  ClusterMember fresh(
      {.cluster = "test", .task = 1, .pid = 43}, &coordinator_,
      {.on_refused = [&refused](const absl::Status& status) { refused.push_back(status); }});
  fresh.Beat();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0], others);
}

TEST_F(ClusterMemberTest, SaysWhyOthersMayNotReachItAsLongAsTheyMayNot) {
  std::string trouble = "takes no new connections";
  ClusterMember member({.cluster = "test", .trouble = [&trouble] { return trouble; }},
                       &coordinator_);
  answer_ = Joined(5);
  member.Beat();
  EXPECT_EQ(last().trouble(), "takes no new connections");
  trouble = "";
  member.Beat();
  EXPECT_EQ(last().trouble(), "");
}

TEST_F(ClusterMemberTest, IsToldOnceToLeave) {
  int told = 0;
  ClusterMember member({.cluster = "test", .task = 1, .pid = 42}, &coordinator_,
                       {.on_drain = [&told] { ++told; }});
  answer_ = Joined(5);
  member.Beat();
  EXPECT_EQ(told, 0);
  answer_->set_drain(true);
  member.Beat();
  member.Beat();
  EXPECT_EQ(told, 1);
}

// Of a session that runs, the coordinator is told another time.
TEST_F(ClusterMemberTest, AGuestIsToldToEnterAgainWhileNoSessionRuns) {
  int told = 0;
  ClusterMember member({.cluster = "test", .task = 1, .pid = 42}, &coordinator_,
                       {.on_enter_again = [&told] { ++told; }});
  answer_ = Joined(5);
  member.Beat();
  EXPECT_EQ(told, 0);
  answer_->set_enter_again(true);
  StatsCollector stats;
  SessionControl control(Clock::Real(), absl::Seconds(1));
  member.Enter(SessionKey(), &stats, &control);
  member.Beat();
  EXPECT_EQ(told, 0);
  member.Exit(/*rejoin=*/false);
  member.Beat();
  EXPECT_EQ(told, 1);
}

TEST_F(ClusterMemberTest, AnswersAQuestionAboutDataWithItsNextHeartbeats) {
  std::atomic<int> looks = 0;
  ClusterMember member({.cluster = "test", .task = 1, .pid = 42}, &coordinator_,
                       {.look_at_data = [&looks](const Job& job) {
                         ++looks;
                         DataReport report;
                         report.add_error()->set_message(job.name());
                         return report;
                       }});
  answer_ = Joined(5);
  answer_->set_term(9);
  answer_->mutable_data_question()->set_number(3);
  answer_->mutable_data_question()->mutable_job()->set_name("mnist");
  constexpr int kBeats = 100000;  // Its thread has looked long before.
  for (int i = 0; i < kBeats && (i == 0 || !last().has_data_report()); ++i) {
    member.Beat();
  }
  EXPECT_EQ(last().data_report().number(), 3u);
  EXPECT_EQ(last().data_report().term(), 9u);
  EXPECT_EQ(last().data_report().error(0).message(), "mnist");
  member.Beat();  // The coordinator has not heard of it yet.
  EXPECT_EQ(looks, 1);
  answer_->mutable_data_question()->set_number(4);
  for (int i = 0; i < kBeats && last().data_report().number() != 4; ++i) {
    member.Beat();
  }
  EXPECT_EQ(last().data_report().number(), 4u);
  EXPECT_EQ(looks, 2);
}

TEST_F(ClusterMemberTest, AWorkerThatCanNeverJoinIsToldOnceWhy) {
  for (const absl::Status& refusal :
       {absl::FailedPreconditionError("belongs to cluster \"a\", the coordinator to \"b\""),
        absl::NotFoundError("worker/1 is not in the cluster file, which has 1 workers")}) {
    std::vector<absl::Status> told;
    ClusterMember member(
        {.cluster = "test", .task = 1, .pid = 42}, &coordinator_,
        {.on_refused = [&told](const absl::Status& status) { told.push_back(status); }});
    answer_ = absl::UnavailableError("nobody there");
    member.Beat();
    answer_ = absl::AlreadyExistsError("worker/1 is running already as pid 7");
    member.Beat();
    EXPECT_THAT(told, ::testing::IsEmpty());  // these may pass
    answer_ = refusal;
    member.Beat();
    const size_t beats = coordinator_.heartbeats().size();
    member.Beat();
    EXPECT_THAT(told, ::testing::ElementsAre(refusal));
    EXPECT_EQ(coordinator_.heartbeats().size(), beats);
  }
}

TEST_F(ClusterMemberTest, EachNewReasonIsLoggedOnce) {
  ::testing::internal::CaptureStderr();
  Beat(absl::UnavailableError("nobody there"));
  Beat(absl::UnavailableError("nobody there"));
  Beat(absl::AlreadyExistsError("worker/1 is running already as pid 7, last heard 0.4 s ago"));
  Beat(absl::AlreadyExistsError("worker/1 is running already as pid 7, last heard 0.9 s ago"));
  Beat(absl::UnavailableError("nobody there"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, ::testing::SizeIs(2)) << log;
  EXPECT_THAT(lines[0], ::testing::HasSubstr("no answer from the coordinator"));
  EXPECT_THAT(lines[1], ::testing::HasSubstr("the coordinator refuses this worker, trying again: "
                                             "worker/1 is running already as pid 7"));
}

TEST_F(ClusterMemberTest, BringsTheSessionsFiguresAndIsHeard) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  stats_.AddStep({.loss_mean = 1, .correct = 1, .examples = 64}, absl::Milliseconds(1));
  clock_.Advance(absl::Seconds(10));
  Beat(Joined(5, "a-1"));
  EXPECT_EQ(last().session().job(), "a-1");
  EXPECT_EQ(last().stats().examples(), 64u);
  EXPECT_FALSE(control_.paused());
  EXPECT_EQ(control_.state(), SessionControl::State::kRunning);
  member_.Exit(false);
}

TEST_F(ClusterMemberTest, TheSessionIsToldItsLocalSteps) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  EXPECT_EQ(control_.local_steps(), 0u);
  HeartbeatReply told = Joined(5, "a-1");
  told.set_local_steps(25);
  Beat(told);
  EXPECT_EQ(control_.local_steps(), 25u);
  Beat(absl::UnavailableError("nobody there"));
  EXPECT_EQ(control_.local_steps(), 25u);
  // A coordinator that was started anew knows nothing yet.
  Beat(Joined(5, "a-1"));
  EXPECT_EQ(control_.local_steps(), 0u);
  member_.Exit(false);
}

TEST_F(ClusterMemberTest, ASilentCoordinatorPausesTheSession) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  clock_.Advance(absl::Seconds(4));
  Beat(absl::DeadlineExceededError("no answer"));
  EXPECT_TRUE(control_.paused());
  member_.Exit(false);
}

TEST_F(ClusterMemberTest, ALostWorkerStopsAndJoinsAgain) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  HeartbeatReply lost;
  lost.set_rejoin(true);
  Beat(lost);
  EXPECT_EQ(control_.state(), SessionControl::State::kStop);
  member_.Exit(false);
  Beat(Joined(6, "a-1"));
  EXPECT_EQ(last().incarnation(), 0u);
  auto assignment = member_.AwaitAssignment(absl::ZeroDuration());
  ASSERT_TRUE(assignment.has_value());
  EXPECT_EQ(assignment->session().incarnation(), 6u);
}

TEST_F(ClusterMemberTest, ASessionTakenAwayIsStopped) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  Beat(Joined(5));
  EXPECT_EQ(control_.state(), SessionControl::State::kStop);
  member_.Exit(false);
}

TEST_F(ClusterMemberTest, AnEndedSessionIsNotRunAgain) {
  Beat(Joined(5, "a-1"));
  member_.Enter(answer_->assignment().session(), &stats_, &control_);
  member_.Exit(false);
  Beat(Joined(5, "a-1"));
  EXPECT_FALSE(member_.AwaitAssignment(absl::ZeroDuration()).has_value());
  Beat(Joined(5, "b-2"));
  EXPECT_TRUE(member_.AwaitAssignment(absl::ZeroDuration()).has_value());
}

TEST_F(ClusterMemberTest, DepartSaysSoOnceAndStopsBeating) {
  Beat(Joined(5));
  ASSERT_OK(member_.Depart());
  EXPECT_TRUE(last().leaving());
  EXPECT_EQ(last().incarnation(), 5u);
  const size_t sent = coordinator_.heartbeats().size();
  member_.Beat();
  EXPECT_EQ(coordinator_.heartbeats().size(), sent);
}

TEST_F(ClusterMemberTest, TheSessionHearsOfSettingsAndTellsWhichItTrainsWith) {
  Beat(Joined(5, "a-1"));
  const auto assignment = member_.AwaitAssignment(absl::ZeroDuration());
  ASSERT_TRUE(assignment.has_value());
  member_.Enter(assignment->session(), &stats_, &control_);
  HeartbeatReply reply = Joined(5, "a-1");
  reply.mutable_assignment()->set_settings_revision(3);
  reply.mutable_assignment()->mutable_job()->mutable_downpour()->set_staleness_bound(9);
  Beat(reply);
  EXPECT_EQ(last().settings_revision(), 0u);
  ASSERT_NE(control_.NewerSettings(0), nullptr);
  EXPECT_EQ(control_.NewerSettings(0)->downpour.staleness_bound(), 9u);
  control_.TookSettings(3);
  Beat(reply);
  EXPECT_EQ(last().settings_revision(), 3u);
  member_.Exit(/*rejoin=*/false);
}

}  // namespace
}  // namespace monsoon
