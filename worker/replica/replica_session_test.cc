#include "worker/replica/replica_session.h"

#include "common/testing/status_matchers.h"
#include "worker/replica/training_work.h"
#include "worker/testing/fakes.h"
#include "worker/testing/replies.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::Evaluate;
using testing::FakeCoordinator;
using testing::FakeNetwork;
using testing::FakeReader;
using testing::FakeShards;
using testing::Finish;
using testing::Flush;
using testing::Train;
using testing::Wait;

// Shards that keep generations.
class KeepingShards : public FakeShards {
 public:
  using FakeShards::FakeShards;
  absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration) override {
    return await_durable ? await_durable() : std::vector<uint64_t>();
  }
  std::function<std::vector<uint64_t>()> await_durable;
};

class ReplicaSessionTest : public ::testing::TestWithParam<Overlap> {
 protected:
  ReplicaSessionTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), reader_(4) {
    options_.overlap = GetParam();
    options_.n_push = 3;
    options_.divergence.set_max_refused(2);
    control_.OnStop([this] { shards_.Cancel(); });
  }

  SessionEnd Run() {
    DownpourRunner runner(options_, &layout_, &shards_, &group_, nullptr, &stats_, &control_,
                          &clock_);
    TrainingWork training(&runner, &reader_, GetParam(), /*worker=*/0, &clock_);
    ReplicaSession::Parts parts;
    parts.coordinator = &coordinator_;
    parts.work = {&training};
    parts.evaluate = [this](const std::string&) -> absl::StatusOr<EvaluationResult> {
      ++evaluated_;
      return EvaluationResult{2.0, 3, 4};
    };
    parts.stats = &stats_;
    parts.control = &control_;
    return ReplicaSession(parts).Run();
  }
  void Script(std::vector<NextWorkReply> replies) {
    coordinator_.next_work = [replies = std::move(replies)](
                                 const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
      return replies.at(request.request() - 1);
    };
  }
  // Blocks reported with each request.
  std::vector<std::vector<uint32_t>> Reported() {
    std::vector<std::vector<uint32_t>> reported;
    for (const NextWorkRequest& request : coordinator_.requests()) {
      reported.emplace_back();
      for (const BlockId& block : request.done()) reported.back().push_back(block.block());
    }
    return reported;
  }

  const ParameterLayout layout_;
  KeepingShards shards_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  FakeReader reader_;
  FakeCoordinator coordinator_;
  StatsCollector stats_;
  ManualClock clock_;
  SessionControl control_{&clock_, absl::Seconds(3)};
  DownpourRunnerOptions options_;
  int evaluated_ = 0;
};

TEST_P(ReplicaSessionTest, TrainsReportsEvaluatesAndFinishes) {
  Script({Train({0, 1}), Train({2}), Flush(), Wait(), Evaluate(9), Finish()});
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  const ReplicaStats figures = stats_.Snapshot();
  EXPECT_EQ(figures.steps(), 12u);
  EXPECT_EQ(figures.pushes(), 4u);
  EXPECT_EQ(evaluated_, 1);
  ASSERT_EQ(coordinator_.evaluations().size(), 1u);
  EXPECT_EQ(coordinator_.evaluations()[0].evaluation(), 9u);
  EXPECT_EQ(coordinator_.evaluations()[0].correct(), 3u);
  // Each block is reported once, and all of them after the flush.
  std::vector<uint32_t> all;
  for (const auto& blocks : Reported()) all.insert(all.end(), blocks.begin(), blocks.end());
  EXPECT_THAT(all, ElementsAre(0, 1, 2));
  EXPECT_EQ(Reported()[0].size(), 0u);
  EXPECT_EQ(shards_.w()[0], -78.0f);
}

TEST_P(ReplicaSessionTest, TellsInWhichGenerationsItsPushesAreAndLooksOnceMore) {
  Script({Train({0}), Flush(), Finish(), Wait(), Wait(), Wait()});
  // A folder is put back while it tells: what it looks at then is of another life.
  std::vector<std::vector<uint64_t>> durable = {{7}, {8}, {8}, {8}};
  size_t looks = 0;
  shards_.await_durable = [&] { return durable.at(looks++); };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  std::vector<uint64_t> told;
  for (const NextWorkRequest& request : coordinator_.requests()) {
    told.insert(told.end(), request.durable_in().begin(), request.durable_in().end());
  }
  EXPECT_THAT(told, ElementsAre(7, 8));
  EXPECT_EQ(looks, 3u);
}

TEST_P(ReplicaSessionTest, WhoIsToldToLeaveTellsThatToo) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Train({0, 1}) : Wait();
  };
  shards_.await_durable = [] { return std::vector<uint64_t>{3}; };
  network_.before_step = [this](uint64_t step) {
    if (step == 4) control_.Drain();
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kDrained);
  EXPECT_THAT(coordinator_.requests().back().durable_in(), ElementsAre(3));
  EXPECT_GT(shards_.pushed().size(), 0u);
  EXPECT_EQ(coordinator_.requests().back().pushes(), shards_.pushed().size());
}

TEST_P(ReplicaSessionTest, ABlockIsNotReportedBeforeItsPush) {
  options_.n_push = 100;  // only flushes push
  Script({Train({0}), Train({1}), Flush(), Finish()});
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  EXPECT_THAT(Reported(),
              ElementsAre(ElementsAre(), ElementsAre(), ElementsAre(), ElementsAre(0, 1)));
}

TEST_P(ReplicaSessionTest, AsksAgainWithTheSameRequest) {
  int failures = 2;
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    if (failures-- > 0) return absl::UnavailableError("nobody there");
    return request.request() == 1 ? Train({0}) : request.request() == 2 ? Flush() : Finish();
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  std::vector<uint64_t> numbers;
  for (const auto& request : coordinator_.requests()) numbers.push_back(request.request());
  EXPECT_THAT(numbers, ElementsAre(1, 1, 1, 2, 3));
}

TEST_P(ReplicaSessionTest, ARefusedSessionIsLost) {
  Script({Train({0, 1})});
  shards_.before_push = [] { return absl::FailedPreconditionError("ps/0: no such session"); };
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Train({0, 1}) : Wait();
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kLost);
}

TEST_P(ReplicaSessionTest, AnUnknownSessionAtTheCoordinatorIsLost) {
  coordinator_.next_work = [](const NextWorkRequest&) -> absl::StatusOr<NextWorkReply> {
    return absl::FailedPreconditionError("no open session");
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kLost);
}

TEST_P(ReplicaSessionTest, DrainPushesTheTailAndReports) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Train({0, 1}) : Wait();
  };
  network_.before_step = [this](uint64_t step) {
    if (step == 4) control_.Drain();  // inside the first step of block 1
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kDrained);
  EXPECT_EQ(stats_.Snapshot().steps(), 5u);
  EXPECT_EQ(shards_.w()[0], -15.0f);
  EXPECT_THAT(Reported().back(), ElementsAre(0));
}

TEST_P(ReplicaSessionTest, StopEndsAtTheNextStep) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Train({0, 1, 2}) : Wait();
  };
  network_.before_step = [this](uint64_t step) {
    if (step == 2) control_.Stop();
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kStopped);
  EXPECT_EQ(stats_.Snapshot().steps(), 3u);
}

TEST_P(ReplicaSessionTest, DivergenceIsReportedAsSuch) {
  Script({Train({0}), Flush(), Flush(), Flush()});
  shards_.RefuseNext(100);
  options_.n_push = 1;
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_EQ(end.failure, ReportFailureRequest::DIVERGED);
}

// What the shards have is told, and durable; blocks of which a push was refused go to others.
TEST_P(ReplicaSessionTest, AProgramThatDivergesAloneLeavesInOrder) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Train({0, 1, 2}) : Wait();
  };
  shards_.await_durable = [] { return std::vector<uint64_t>{3}; };
  options_.of_program = true;
  options_.n_push = 1;
  network_.before_step = [this](uint64_t step) {
    if (step == 5) {
      shards_.before_push = [] { return absl::InvalidArgumentError("index 3 is nan"); };
    }
  };
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_EQ(end.failure, ReportFailureRequest::PROGRAM_DIVERGED);
  EXPECT_THAT(end.message, ::testing::HasSubstr("2 pushes refused in a row"));
  std::vector<uint32_t> all;
  for (const auto& blocks : Reported()) all.insert(all.end(), blocks.begin(), blocks.end());
  EXPECT_THAT(all, ElementsAre(0));
  EXPECT_THAT(coordinator_.requests().back().durable_in(), ElementsAre(3));
  EXPECT_EQ(coordinator_.requests().back().pushes(), shards_.pushed().size());
}

TEST_P(ReplicaSessionTest, ParametersOfTheShardsThatAreNotFiniteAreTheJobs) {
  Script({Train({0}), Flush(), Flush(), Flush()});
  options_.of_program = true;
  options_.overlap = NONE;  // something is fetched between two pushes
  options_.n_push = 1;
  options_.divergence.set_action(DivergencePolicy::SKIP);
  shards_.ApplyForeign(std::nanf(""));
  shards_.RefuseNext(100);
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_EQ(end.failure, ReportFailureRequest::DIVERGED) << end.message;
}

TEST_P(ReplicaSessionTest, ALostDeviceEndsTheSessionAndIsNamed) {
  Script({Train({0}), Train({1}), Flush(), Finish()});
  // The code that means a lost session when a shard says it.
  network_.fail = [](uint64_t step) {
    return step == 5 ? absl::FailedPreconditionError("GPU 0: an illegal address in conv1 forward")
                     : absl::OkStatus();
  };
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDeviceLost);
  EXPECT_EQ(end.failure, ReportFailureRequest::REPLICA);
  EXPECT_THAT(end.message,
              ::testing::AllOf(::testing::HasSubstr("(fake)"), ::testing::HasSubstr("GPU 0"),
                               ::testing::HasSubstr("conv1 forward")));
}

INSTANTIATE_TEST_SUITE_P(Overlaps, ReplicaSessionTest, ::testing::Values(NONE, ASYNC),
                         [](const auto& info) { return Overlap_Name(info.param); });

}  // namespace
}  // namespace monsoon
