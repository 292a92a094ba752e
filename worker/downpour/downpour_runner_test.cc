#include "worker/downpour/downpour_runner.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "common/testing/status_matchers.h"
#include "worker/session/session_status.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeNetwork;
using testing::FakeShards;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr absl::Duration kLong = absl::Seconds(30);

// A door that calls wait at until the test opens it.
class Gate {
 public:
  void Open() {
    MutexLock lock(&mutex_);
    ++open_;
    changed_.NotifyAll();  // under the lock: who passed may destroy the gate
  }
  // True once it was opened as often as it was passed.
  bool Pass() {
    MutexLock lock(&mutex_);
    ++waiting_;
    changed_.NotifyAll();
    const bool opened = changed_.WaitFor(&mutex_, kLong, [this] {
      mutex_.AssertHeld();
      return open_ > 0;
    });
    if (opened) --open_;
    return opened;
  }
  bool AwaitArrivals(int count) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, kLong, [&] {
      mutex_.AssertHeld();
      return waiting_ >= count;
    });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DownpourRunnerTest : public ::testing::Test {
 protected:
  DownpourRunnerTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), batch_(1, 4) {
    batch_.examples = 1;
    options_.overlap = NONE;
    options_.worker = 2;
    options_.divergence.set_max_refused(3);
  }

  DownpourRunner& Runner() {
    if (runner_ == nullptr) {
      auto map = ShardMap::Create(layout_.size(), 1);
      Downpour downpour;
      *downpour.mutable_local_update() = local_update_;
      auto local = LocalUpdater::Create(downpour, *map);
      EXPECT_OK(local.status());
      runner_ =
          std::make_unique<DownpourRunner>(options_, &layout_, &shards_, &group_, *std::move(local),
                                           &stats_, &control_, Clock::Real());
    }
    return *runner_;
  }
  absl::StatusOr<StepResult> Step(const std::optional<BlockId>& last_of = std::nullopt) {
    Runner().Add(&batch_, last_of);
    return Runner().Step();
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      BlockId block;
      block.set_block(next_block_++);
      ASSERT_OK(Step(block));
    }
  }
  std::vector<uint32_t> Done() {
    std::vector<uint32_t> done;
    for (const auto& part : Runner().TakeDone()) done.push_back(std::get<BlockId>(part).block());
    return done;
  }

  ParameterLayout layout_;
  FakeShards shards_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  DownpourRunnerOptions options_;
  LocalUpdate local_update_;
  uint32_t next_block_ = 0;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(DownpourRunnerTest, WithoutOverlapFetchesAndPushesInTurn) {
  Steps(3);
  EXPECT_THAT(shards_.log(), ElementsAre("fetch", "push", "fetch", "push", "fetch", "push"));
  // Step s saw all earlier gradients: 0, -1, -3.
  EXPECT_THAT(network_.seen, ElementsAre(0, -1, -3));
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 1, 2));
  EXPECT_EQ(stats_.Snapshot().staleness().at(0), 3u);
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2));
}

TEST_F(DownpourRunnerTest, CountsAreExactCeilings) {
  for (const auto& [n_fetch, n_push, steps] :
       {std::tuple{1, 1, 7}, {4, 2, 7}, {4, 2, 8}, {4, 2, 9}, {3, 5, 16}, {10, 1, 3}, {1, 10, 3}}) {
    SCOPED_TRACE(absl::StrCat(n_fetch, "/", n_push, " ", steps));
    FakeShards shards(layout_.size());
    FakeNetwork network;
    StatsCollector stats;
    options_.n_fetch = n_fetch;
    options_.n_push = n_push;
    ReplicaGroup group({}, &network);
    DownpourRunner runner(options_, &layout_, &shards, &group, nullptr, &stats, &control_,
                          Clock::Real());
    for (int i = 0; i < steps; ++i) {
      runner.Add(&batch_, std::nullopt);
      ASSERT_OK(runner.Step());
    }
    ASSERT_OK(runner.Flush());
    ASSERT_OK(runner.Flush());  // the tail leaves once
    const ReplicaStats figures = stats.Snapshot();
    EXPECT_EQ(figures.fetches(), (steps + n_fetch - 1) / n_fetch);
    EXPECT_EQ(figures.pushes(), (steps + n_push - 1) / n_push);
    EXPECT_EQ(figures.steps(), steps);
    // Every gradient once: the sum of 1..steps.
    EXPECT_EQ(shards.w()[0], -steps * (steps + 1) / 2.0f);
  }
}

TEST_F(DownpourRunnerTest, BlocksAreDoneOnlyWhenTheirPushIs) {
  options_.n_push = 3;
  Steps(2);
  EXPECT_THAT(Done(), ElementsAre());
  Steps(2);
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2));
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(Done(), ElementsAre(3));
}

TEST_F(DownpourRunnerTest, BaseIsTheOldestFetchThatContributed) {
  options_.n_fetch = 2;
  options_.n_push = 3;
  Steps(3);  // fetches before steps 0 and 2, push after step 2 based on the first
  shards_.ApplyForeign(1);
  Steps(3);  // step 3 still uses the fetch of step 2 at version 0
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 0));
  const ReplicaStats figures = stats_.Snapshot();
  EXPECT_EQ(figures.staleness().at(0), 1u);
  EXPECT_EQ(figures.staleness().at(2), 1u);  // its own first push and the foreign one
}

TEST_F(DownpourRunnerTest, LocalUpdateCountsEachOwnGradientOnce) {
  options_.n_fetch = 3;
  options_.n_push = 2;
  local_update_.set_sgd_rate(1.0);  // as the fake shard does
  Steps(7);
  // With the shard's own rate the replica sees exactly what one process would:
  // the sum of all its earlier gradients, wherever they are.
  EXPECT_THAT(network_.seen, ElementsAre(0, -1, -3, -6, -10, -15, -21));
}

TEST_F(DownpourRunnerTest, LocalUpdateUnderOverlapLosesAndRepeatsNothing) {
  options_.overlap = ASYNC;
  local_update_.set_sgd_rate(1.0);
  Steps(300);
  ASSERT_OK(Runner().Flush());
  float expected = 0;
  for (int s = 0; s < 300; ++s) {
    ASSERT_EQ(network_.seen[s], expected) << "step " << s;
    expected -= static_cast<float>(s + 1);
  }
  EXPECT_EQ(shards_.w()[0], expected);
}

TEST_F(DownpourRunnerTest, OverlapDoesNotWaitForAFetch) {
  options_.overlap = ASYNC;
  options_.n_push = 100;
  Gate gate;
  std::atomic<int> fetch{0};
  shards_.before_fetch = [&] {
    if (fetch++ > 0) {
      EXPECT_TRUE(gate.Pass());
    }
    return absl::OkStatus();
  };
  Steps(10);  // the second fetch is held up all the time
  EXPECT_THAT(network_.seen, ::testing::Each(0.0f));
  ASSERT_TRUE(gate.AwaitArrivals(1));  // ten steps can be over before it starts
  EXPECT_EQ(fetch.load(), 2);          // and no third one starts beside it
  gate.Open();
  runner_.reset();  // before what the hooks hold
}

TEST_F(DownpourRunnerTest, OverlapHasOnePushInFlight) {
  options_.overlap = ASYNC;
  Gate gate;
  std::atomic<int> in_flight{0};
  std::atomic<int> most{0};
  shards_.before_push = [&] {
    most = std::max(most.load(), ++in_flight);
    EXPECT_TRUE(gate.Pass());
    return absl::OkStatus();
  };
  shards_.after_push = [&] { --in_flight; };
  Steps(1);
  ASSERT_TRUE(gate.AwaitArrivals(1));
  EXPECT_THAT(Done(), ElementsAre());
  for (int i = 0; i < 5; ++i) gate.Open();
  Steps(4);
  ASSERT_OK(Runner().Flush());
  EXPECT_EQ(most.load(), 1);
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(shards_.w()[0], -15.0f);
  runner_.reset();
}

TEST_F(DownpourRunnerTest, ParametersDoNotChangeInsideAStep) {
  options_.overlap = ASYNC;
  options_.n_push = 1000;
  Gate landed;
  std::atomic<int> fetch{0};
  shards_.after_fetch = [&] {
    if (fetch++ == 1) landed.Open();
  };
  network_.before_step = [&](uint64_t step) {
    if (step == 1) {
      EXPECT_TRUE(landed.Pass());  // a newer fetch lands inside step 1
    }
    shards_.ApplyForeign(1);
  };
  Steps(2);
  EXPECT_EQ(network_.seen[1], 0.0f);
  runner_.reset();
}

TEST_F(DownpourRunnerTest, ClipsThePushToTheNorm) {
  options_.clip_norm = 1.0;
  Steps(1);  // 16 parameters of gradient 1: norm 4
  EXPECT_FLOAT_EQ(shards_.pushed()[0][0], 0.25f);
}

TEST_F(DownpourRunnerTest, StatisticsAreNotClipped) {
  options_.clip_norm = 1.0;
  Model model;
  ModelTensor* const mean = model.add_tensor();
  mean->set_name("running_mean");
  mean->add_shape(16);
  mean->set_kind(ModelTensor::STATISTIC);
  layout_ = *ParameterLayout::Create(model);
  Steps(1);
  EXPECT_EQ(shards_.pushed()[0][0], -1.0f);  // the value, of 0 and a gradient of 1
}

TEST_F(DownpourRunnerTest, NonFiniteLossNamesWorkerStepAndTensor) {
  network_.loss = [](uint64_t step) { return step == 1 ? std::nan("") : 1.0; };
  network_.spoil = [](uint64_t step, std::span<float> g) {
    if (step == 1) g[5] = std::numeric_limits<float>::infinity();
  };
  Steps(1);
  const absl::Status status = Step().status();
  EXPECT_TRUE(IsDivergedError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker/2 step 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("dense1/weight[5]"));
  EXPECT_EQ(shards_.pushed().size(), 1u);
}

TEST_F(DownpourRunnerTest, SkipDropsTheStepAndGoesOn) {
  options_.divergence.set_action(DivergencePolicy::SKIP);
  network_.loss = [](uint64_t step) { return step == 1 ? std::nan("") : 1.0; };
  Steps(3);
  ASSERT_OK(Runner().Flush());
  EXPECT_EQ(shards_.w()[0], -1.0f - 3.0f);
  EXPECT_EQ(stats_.Snapshot().refused(), 1u);
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2));
}

// No later push takes its sequence.
TEST_F(DownpourRunnerTest, SkipIsDoneWithBlocksOfWhichNothingIsPushedAnyMore) {
  options_.divergence.set_action(DivergencePolicy::SKIP);
  Steps(1);
  shards_.before_push = [] { return absl::InvalidArgumentError("index 3 is inf"); };
  Steps(2);
  ASSERT_OK(Runner().Flush());
  EXPECT_EQ(stats_.Snapshot().refused(), 2u);
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2));
}

TEST_F(DownpourRunnerTest, RejectFailsAfterSoManyInARow) {
  shards_.RefuseNext(2);
  Steps(3);  // two refused, one applied: the row is broken
  shards_.RefuseNext(3);
  Steps(2);
  const absl::Status status = Step().status();
  EXPECT_TRUE(IsDivergedError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 pushes refused in a row"));
  EXPECT_EQ(stats_.Snapshot().refused(), 5u);
}

TEST_F(DownpourRunnerTest, HaltFailsAtTheFirst) {
  options_.divergence.set_action(DivergencePolicy::HALT);
  shards_.before_push = [] { return absl::InvalidArgumentError("index 3 is nan"); };
  const absl::Status status = Step().status();
  EXPECT_TRUE(IsDivergedError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("index 3 is nan"));
}

TEST_F(DownpourRunnerTest, AnUnreachableShardIsAskedUntilTheSessionStops) {
  int tries = 0;
  shards_.before_push = [&] {
    if (++tries == 3) control_.Stop();
    return absl::DeadlineExceededError("ps/0 did not answer");
  };
  EXPECT_THAT(Step().status(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("ps/0")));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(stats_.Snapshot().pushes(), 0u);
}

TEST_F(DownpourRunnerTest, ACancelledCallIsNotRepeated) {
  options_.overlap = ASYNC;
  int tries = 0;
  shards_.before_fetch = [&] {
    ++tries;
    return absl::CancelledError("cancelled");
  };
  EXPECT_THAT(Step().status(), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  EXPECT_EQ(tries, 1);
  runner_.reset();
}

// A push is waited for after each step, so that what the next one sees is known.
TEST_F(DownpourRunnerTest, MappedParametersAreReadAtTheBoundary) {
  options_.overlap = ASYNC;
  options_.n_fetch = 2;
  shards_.mapped = true;
  for (int step = 0; step < 5; ++step) {
    Steps(1);
    ASSERT_OK(Runner().Flush());
  }
  EXPECT_THAT(shards_.log(),
              ElementsAre("fetch", "push", "push", "map", "push", "push", "map", "push"));
  EXPECT_THAT(network_.seen, ElementsAre(0, 0, -3, -3, -10));
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 0, 2, 2, 4));
  EXPECT_EQ(stats_.Snapshot().fetches(), 3u);
}

TEST_F(DownpourRunnerTest, AFetchThatIsDueComesWithThePush) {
  options_.overlap = ASYNC;
  options_.n_fetch = 2;
  shards_.combined = true;
  for (int step = 0; step < 5; ++step) {
    Steps(1);
    ASSERT_OK(Runner().Flush());
  }
  // Before steps 2 and 4.
  EXPECT_THAT(shards_.log(), ElementsAre("fetch", "push", "push", "and fetch", "push", "push",
                                         "and fetch", "push"));
  EXPECT_THAT(network_.seen, ElementsAre(0, 0, -3, -3, -10));
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 0, 2, 2, 4));
  EXPECT_EQ(stats_.Snapshot().fetches(), 3u);
}

TEST_F(DownpourRunnerTest, AFetchThatDidNotComeWithThePushIsMadeAlone) {
  options_.overlap = ASYNC;
  shards_.combined = true;
  shards_.LoseNext(1);
  Gate fetched;
  shards_.after_fetch = [&] { fetched.Open(); };
  Steps(1);
  ASSERT_TRUE(fetched.Pass());
  ASSERT_OK(Runner().Flush());
  Steps(1);  // starts the fetch that is due
  ASSERT_TRUE(fetched.Pass());
  EXPECT_EQ(shards_.fetches(), 2);
}

// With the rate of the shards, a replica's parameters are all its own gradients,
// wherever its pushes are.
TEST_F(DownpourRunnerTest, CombinedFetchesCountOwnGradientsOnce) {
  options_.overlap = ASYNC;
  options_.n_push = 3;
  local_update_.set_sgd_rate(1.0);
  shards_.combined = true;
  constexpr int kSteps = 60;
  Steps(kSteps);
  ASSERT_OK(Runner().Flush());
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_EQ(network_.seen[step], -step * (step + 1) / 2.0f) << step;
  }
}

// ---- shards that are away -----------------------------------------------------

TEST_F(DownpourRunnerTest, GoesOnWithoutAShardForSoManySteps) {
  options_.overlap = ASYNC;
  options_.away_steps = 3;
  int tries = 0;
  shards_.before_return = [&] {
    if (++tries == 2) shards_.SetAway(false);
    return absl::OkStatus();
  };
  Steps(2);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(Done(), ElementsAre(0, 1));
  shards_.SetAway(true);
  Steps(3);
  EXPECT_EQ(tries, 0);
  EXPECT_EQ(stats_.Snapshot().away_steps(), 3u);
  EXPECT_THAT(Done(), ElementsAre());  // nobody has acknowledged them
  Steps(1);                            // waits until it is back
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(stats_.Snapshot().away_steps(), 3u);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(Done(), ElementsAre(2, 3, 4, 5));
  // The bound is of steps in a row.
  shards_.SetAway(true);
  Steps(3);
  EXPECT_EQ(stats_.Snapshot().away_steps(), 6u);
  shards_.SetAway(false);
}

TEST_F(DownpourRunnerTest, WithoutOverlapItWaitsForAShardAtOnce) {
  Steps(1);
  int tries = 0;
  shards_.SetAway(true);
  shards_.before_return = [&] {
    ++tries;
    EXPECT_THAT(stats_.Snapshot().waits_for(), HasSubstr("ps/0"));
    shards_.SetAway(false);
    return absl::OkStatus();
  };
  Steps(1);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(stats_.Snapshot().away_steps(), 0u);
  EXPECT_THAT(Done(), ElementsAre(0, 1));
}

TEST_F(DownpourRunnerTest, AFlushWaitsUntilAllIsAcknowledged) {
  options_.overlap = ASYNC;
  Steps(1);
  ASSERT_OK(Runner().Flush());
  shards_.SetAway(true);
  shards_.before_return = [&] {
    EXPECT_THAT(shards_.pushed().size(), 2u);
    shards_.SetAway(false);
    return absl::OkStatus();
  };
  Steps(1);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(Done(), ElementsAre(0, 1));
}

// A shard that is back writes no checkpoint before it has all that it had, and a replica whose
// window is full may wait for just that.
TEST_F(DownpourRunnerTest, AnIdleReplicaGivesAShardThatIsBackWhatItHad) {
  options_.overlap = ASYNC;
  int tries = 0;
  shards_.before_return = [&] {
    if (++tries == 2) shards_.SetAway(false);
    return absl::OkStatus();
  };
  Steps(1);
  ASSERT_OK(Runner().Flush());
  ASSERT_OK(Runner().Idle());
  EXPECT_EQ(tries, 0);
  shards_.SetAway(true);
  ASSERT_OK(Runner().Idle());
  EXPECT_EQ(tries, 1);  // it does not wait
  ASSERT_OK(Runner().Idle());
  ASSERT_OK(Runner().Idle());
  EXPECT_EQ(tries, 2);
}

TEST_F(DownpourRunnerTest, AStopEndsTheWaitForAShard) {
  Steps(1);
  shards_.SetAway(true);
  shards_.before_return = [&] {
    control_.Stop();
    return absl::OkStatus();
  };
  EXPECT_THAT(Step(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("away")));
}

}  // namespace
}  // namespace monsoon
