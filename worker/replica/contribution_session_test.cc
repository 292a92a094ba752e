// ReplicaSession with contributions: when it asks, reports and leaves.
#include <atomic>

#include "common/testing/status_matchers.h"
#include "worker/replica/contribution_work.h"
#include "worker/replica/replica_session.h"
#include "worker/replica/training_work.h"
#include "worker/testing/fakes.h"
#include "worker/testing/replies.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeCoordinator;
using testing::FakeNetwork;
using testing::FakeReader;
using testing::FakeShards;
using testing::FakeSource;
using testing::Finish;
using ::testing::IsEmpty;
using testing::MakeContribute;
using ::testing::UnorderedElementsAre;
using testing::Wait;

constexpr absl::Duration kLong = absl::Seconds(30);
// A wait that no test outlives.
constexpr uint32_t kForeverMs = 3'600'000;

NextWorkReply Contribute(uint64_t evaluation, std::vector<uint32_t> contributions) {
  NextWorkReply reply;
  *reply.mutable_contribute() = MakeContribute(evaluation, std::move(contributions), 30);
  return reply;
}

class ContributionSessionTest : public ::testing::Test {
 protected:
  ContributionSessionTest() : layout_(testing::SmallLayout()), shards_(layout_.size()) {
    for (const char* name : {"w1", "w2"}) {
      shards_.SetVector(name, std::vector<float>(layout_.size(), 1.0f));
    }
    job_.set_batch_size(10);
    control_.OnStop([this] { shards_.Cancel(); });
  }

  SessionEnd Run(bool with_downpour = false) {
    ContributionReader data(&source_, job_);
    ContributionRunner runner({layout_.size(), 0, 0, {}}, &data, &shards_, &group_, &stats_,
                              &control_, Clock::Real());
    DownpourRunnerOptions options;
    options.overlap = NONE;
    DownpourRunner downpour(options, &layout_, &shards_, &group_, nullptr, &stats_, &control_,
                            Clock::Real());
    TrainingWork training(&downpour, &blocks_, NONE, /*worker=*/0, Clock::Real());
    ContributionWork contributing(&runner, Clock::Real());
    ReplicaSession::Parts parts;
    parts.coordinator = &coordinator_;
    if (with_downpour) {
      parts.work.push_back(&training);
    }
    parts.work.push_back(&contributing);
    parts.evaluate = [this](const std::string&) -> absl::StatusOr<EvaluationResult> {
      network_.SetParameters(evaluated_);
      return EvaluationResult{2, 3, 4};
    };
    parts.stats = &stats_;
    parts.control = &control_;
    return ReplicaSession(parts).Run();
  }
  std::vector<std::string> Reported() const {
    std::vector<std::string> reported;
    for (const NextWorkRequest& request : coordinator_.requests()) {
      for (const ContributionResult& result : request.contribution()) {
        reported.push_back(absl::StrCat(result.evaluation(), "/", result.contribution()));
      }
    }
    return reported;
  }

  const ParameterLayout layout_;
  Job job_;
  FakeShards shards_;
  FakeSource source_{1000};
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  const std::vector<float> evaluated_ = {9};
  FakeReader blocks_{2};
  FakeCoordinator coordinator_;
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
};

// A coordinator that leases up to two contributions to the replica, `total` of
// each evaluation, one evaluation after another.
class Leases {
 public:
  Leases(uint32_t total, uint64_t evaluations) : total_(total), evaluations_(evaluations) {}
  NextWorkReply operator()(const NextWorkRequest& request) {
    for (const ContributionResult& result : request.contribution()) {
      EXPECT_EQ(result.evaluation(), evaluation_);
      ++done_;
    }
    if (done_ == total_) {
      if (evaluation_ == evaluations_) return Finish();
      ++evaluation_;
      done_ = leased_ = 0;
    }
    if (leased_ == total_ || leased_ - done_ == 2) return Wait(kForeverMs);
    return Contribute(evaluation_, {leased_++});
  }

 private:
  const uint32_t total_;
  const uint64_t evaluations_;
  uint64_t evaluation_ = 1;
  uint32_t leased_ = 0;
  uint32_t done_ = 0;
};

TEST_F(ContributionSessionTest, ReportsEachContributionOnceAndAtOnce) {
  // A wait is never served while a result is at hand, or this would not end.
  Leases leases(5, 2);
  coordinator_.next_work = [&](const NextWorkRequest& request) { return leases(request); };
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(Reported(), UnorderedElementsAre("1/0", "1/1", "1/2", "1/3", "1/4", "2/0", "2/1",
                                               "2/2", "2/3", "2/4"));
  EXPECT_EQ(shards_.contributed().size(), 10u);
  const ReplicaStats figures = stats_.Snapshot();
  EXPECT_EQ(figures.fetches(), 2u);
  EXPECT_EQ(figures.steps(), 10u);
}

TEST_F(ContributionSessionTest, ASingleBatchContributionIsReportedAsSoon) {
  job_.set_batch_size(30);
  Leases leases(7, 1);
  coordinator_.next_work = [&](const NextWorkRequest& request) { return leases(request); };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  EXPECT_EQ(Reported().size(), 7u);
}

TEST_F(ContributionSessionTest, NothingIsReportedBeforeTheShardsHaveIt) {
  std::atomic<bool> early = false;
  std::atomic<uint32_t> acknowledged = 0;
  shards_.before_contribute = [&](uint64_t, uint32_t) {
    early = early || !Reported().empty();
    ++acknowledged;
    return false;
  };
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    if (request.request() == 1) return Contribute(1, {0});
    return request.contribution_size() > 0 ? Finish() : Wait(1);
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  EXPECT_FALSE(early);
  EXPECT_EQ(acknowledged, 1u);
  EXPECT_THAT(Reported(), ElementsAre("1/0"));
}

TEST_F(ContributionSessionTest, TrainsFirstAndContributesLater) {
  int reported = 0, leased = 0;
  bool evaluates = false;
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    NextWorkReply reply;
    reported += request.contribution_size();
    if (request.request() == 1) {
      reply.mutable_train()->add_block()->set_block(4);
    } else if (request.request() == 2) {
      reply.mutable_flush();
    } else if (reported < leased) {
      reply = Wait(1);
    } else if (reported == 1 && !evaluates) {
      evaluates = true;
      reply.mutable_evaluate()->set_evaluation(8);
    } else if (leased < 2) {
      reply = Contribute(1, {static_cast<uint32_t>(leased++)});
    } else {
      reply = Finish();
    }
    return reply;
  };
  const SessionEnd end = Run(/*with_downpour=*/true);
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  ASSERT_GE(coordinator_.requests().size(), 2u);
  EXPECT_EQ(coordinator_.requests()[1].done_size(), 1);
  EXPECT_EQ(stats_.Snapshot().pushes(), 4u);
  EXPECT_EQ(stats_.Snapshot().fetches(), 3u);  // two steps, one evaluation
  EXPECT_EQ(coordinator_.evaluations().size(), 1u);
  // After the evaluation the network has the vector again.
  EXPECT_EQ(network_.seen.back(), 1.0f);
}

TEST_F(ContributionSessionTest, WorkOfAnotherKindOfJobIsRefused) {
  coordinator_.next_work = [](const NextWorkRequest&) -> absl::StatusOr<NextWorkReply> {
    NextWorkReply reply;
    reply.mutable_train()->add_block();
    return reply;
  };
  const SessionEnd end = Run();
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_THAT(end.message, ::testing::HasSubstr("without downpour"));
}

TEST_F(ContributionSessionTest, ARefusedSessionIsLost) {
  shards_.before_contribute = [](uint64_t, uint32_t) -> absl::StatusOr<bool> {
    return absl::FailedPreconditionError("ps/0: no such session");
  };
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Contribute(1, {0, 1, 2}) : Wait(1);
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kLost);
  EXPECT_THAT(Reported(), IsEmpty());
}

TEST_F(ContributionSessionTest, DrainFinishesAndReportsTheOneBegun) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Contribute(1, {0, 1, 2}) : Wait(kForeverMs);
  };
  int steps = 0;
  network_.before_step = [&](uint64_t) {
    if (++steps == 5) control_.Drain();  // in the middle of contribution 1
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kDrained);
  EXPECT_EQ(steps, 6);
  EXPECT_THAT(Reported(), ElementsAre("1/0", "1/1"));
}

TEST_F(ContributionSessionTest, StopEndsAtTheNextBatch) {
  coordinator_.next_work = [](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    return request.request() == 1 ? Contribute(1, {0, 1, 2}) : Wait(1);
  };
  int steps = 0;
  network_.before_step = [&](uint64_t) {
    if (++steps == 2) control_.Stop();
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kStopped);
  EXPECT_EQ(steps, 2);
}

TEST_F(ContributionSessionTest, OtherWorkEndsWhatNobodyWaitsFor) {
  job_.set_batch_size(1);
  constexpr uint32_t kBatches = 1000;
  Mutex mutex;
  CondVar changed;
  bool asked = false;
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    NextWorkReply reply;
    if (request.request() == 1) {
      *reply.mutable_contribute() = MakeContribute(1, {0}, kBatches);
      return reply;
    }
    if (request.request() > 2) return Finish();
    reply.mutable_evaluate()->set_evaluation(3);
    MutexLock lock(&mutex);
    asked = true;
    changed.NotifyAll();
    return reply;
  };
  uint32_t steps = 0;
  network_.before_step = [&](uint64_t) {
    MutexLock lock(&mutex);
    EXPECT_TRUE(changed.WaitFor(&mutex, kLong, [&] { return asked; }));
    // The answer lands within one of these steps.
    if (++steps > 1) changed.WaitFor(&mutex, absl::Milliseconds(10));
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  EXPECT_LT(steps, kBatches);
  EXPECT_EQ(coordinator_.evaluations().size(), 1u);
  EXPECT_THAT(Reported(), IsEmpty());
}

TEST_F(ContributionSessionTest, ANewEvaluationEndsTheOldOne) {
  // Evaluation 1 is completed by a copy elsewhere while this replica computes.
  Mutex mutex;
  CondVar changed;
  bool asked = false;
  coordinator_.next_work = [&](const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    if (request.request() == 1) return Contribute(1, {0});
    if (request.request() == 2) {
      MutexLock lock(&mutex);
      asked = true;
      changed.NotifyAll();
      return Contribute(2, {7});
    }
    return request.contribution_size() > 0 ? Finish() : Wait(1);
  };
  int steps = 0;
  network_.before_step = [&](uint64_t) {
    if (++steps > 1) return;
    MutexLock lock(&mutex);
    EXPECT_TRUE(changed.WaitFor(&mutex, kLong, [&] { return asked; }));
  };
  EXPECT_EQ(Run().kind, SessionEnd::Kind::kFinished);
  EXPECT_EQ(Reported().back(), "2/7");
  EXPECT_EQ(stats_.Snapshot().fetches(), 2u);
}

}  // namespace
}  // namespace monsoon
