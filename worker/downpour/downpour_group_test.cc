// DownpourRunner with several replicas: one fetch and one push a round.
#include <cmath>

#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/session/session_status.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeShards;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);

// Step s has the gradient s + 1 everywhere, whoever computes it.
class StepNetwork : public Network {
 public:
  using Hook = std::function<absl::Status(uint32_t replica, uint64_t step)>;

  StepNetwork(uint32_t replica, Hook hook) : replica_(replica), hook_(std::move(hook)) {}
  void SetParameters(std::span<const float>) override {}
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    if (hook_) RETURN_IF_ERROR(hook_(replica_, key.step));
    std::fill(gradient.begin(), gradient.end(), static_cast<float>(key.step + 1));
    return StepResult{loss ? loss(key.step) : 1.0, 0, batch.examples};
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch&) override {
    return absl::UnimplementedError("not in this test");
  }
  std::string Fingerprint() const override { return "fake device"; }

  std::function<double(uint64_t)> loss;

 private:
  const uint32_t replica_;
  const Hook hook_;
};

class DownpourGroupTest : public ::testing::Test {
 protected:
  DownpourGroupTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), batch_(1, 4) {
    batch_.examples = 1;
    options_.overlap = NONE;
    options_.worker = 2;
    options_.divergence.set_max_refused(3);
  }

  void Make(uint32_t replicas, StepNetwork::Hook hook = nullptr,
            std::function<double(uint64_t)> loss = nullptr) {
    auto group =
        ReplicaGroup::Create({2, kLong, &stats_}, replicas,
                             [&](uint32_t replica) -> absl::StatusOr<std::unique_ptr<Network>> {
                               auto network = std::make_unique<StepNetwork>(replica, hook);
                               network->loss = loss;
                               return network;
                             });
    EXPECT_OK(group.status());
    group_ = *std::move(group);
    auto map = ShardMap::Create(layout_.size(), 1);
    Downpour downpour;
    *downpour.mutable_local_update() = local_update_;
    auto local = LocalUpdater::Create(downpour, *map);
    EXPECT_OK(local.status());
    runner_ =
        std::make_unique<DownpourRunner>(options_, &layout_, &shards_, group_.get(),
                                         *std::move(local), &stats_, &control_, Clock::Real());
  }
  // One round of at most so many batches, each a block of its own.
  absl::StatusOr<StepResult> Round(size_t most = 64) {
    for (size_t i = 0; i < most && runner_->room() > 0; ++i) {
      BlockId block;
      block.set_block(next_block_++);
      batch_.examples = 1;  // it may be another one each time
      runner_->Add(&batch_, block);
    }
    return runner_->Step();
  }
  std::vector<uint32_t> Done() {
    std::vector<uint32_t> done;
    for (const DonePart& part : runner_->TakeDone())
      done.push_back(std::get<BlockId>(part).block());
    return done;
  }
  static float MinusSum(int steps) { return -static_cast<float>(steps * (steps + 1)) / 2; }

  const ParameterLayout layout_;
  FakeShards shards_;
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  DownpourRunnerOptions options_;
  LocalUpdate local_update_;
  uint32_t next_block_ = 0;
  std::unique_ptr<ReplicaGroup> group_;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(DownpourGroupTest, OneFetchAndOnePushARoundAndFiguresInBatches) {
  Make(4);
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK_AND_ASSIGN(const StepResult result, Round());
    EXPECT_EQ(result.examples, 4u);
    EXPECT_EQ(result.loss_mean, 1.0);
  }
  EXPECT_THAT(shards_.log(), ElementsAre("fetch", "push", "fetch", "push", "fetch", "push"));
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 1, 2));
  EXPECT_EQ(shards_.pushed()[1][0], 5.0f + 6 + 7 + 8);
  EXPECT_EQ(shards_.w()[0], MinusSum(12));
  EXPECT_EQ(Done().size(), 12u);
  const ReplicaStats figures = stats_.Snapshot();
  EXPECT_EQ(figures.steps(), 12u);
  EXPECT_EQ(figures.examples(), 12u);
  EXPECT_EQ(figures.fetches(), 3u);
  EXPECT_EQ(figures.pushes(), 3u);
  EXPECT_EQ(figures.staleness().at(0), 3u);
  EXPECT_EQ(figures.replicas(), 4u);
  EXPECT_EQ(runner_->steps(), 12u);
}

TEST_F(DownpourGroupTest, WideFetchesAndPushesCountRoundsAndTheTailLeavesOnce) {
  options_.n_fetch = 4;
  options_.n_push = 2;
  Make(2);
  for (int round = 0; round < 5; ++round) ASSERT_OK(Round(round == 4 ? 1 : 2).status());
  EXPECT_THAT(Done(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ASSERT_OK(runner_->Flush());
  ASSERT_OK(runner_->Flush());
  EXPECT_THAT(Done(), ElementsAre(8));
  EXPECT_EQ(stats_.Snapshot().fetches(), 2u);
  EXPECT_EQ(stats_.Snapshot().pushes(), 3u);
  // The second push's rounds still used the first fetch.
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 0, 2));
  EXPECT_EQ(shards_.w()[0], MinusSum(9));
}

TEST_F(DownpourGroupTest, LocalUpdatesCountEachOwnGradientOnce) {
  options_.overlap = ASYNC;
  local_update_.set_sgd_rate(1.0);
  Make(3);
  for (int round = 0; round < 100; ++round) ASSERT_OK(Round().status());
  ASSERT_OK(runner_->Flush());
  EXPECT_EQ(shards_.w()[0], MinusSum(300));
  EXPECT_EQ(Done().size(), 300u);
}

class LossTest : public DownpourGroupTest, public ::testing::WithParamInterface<Overlap> {};

TEST_P(LossTest, AReplicaLostInTheMiddleLosesNoGradient) {
  options_.overlap = GetParam();
  Make(4, [](uint32_t replica, uint64_t step) {
    return replica == 2 && step >= 10 ? absl::InternalError("an illegal address in conv2 backward")
                                      : absl::OkStatus();
  });
  int steps = 0;
  while (steps < 100) {
    ASSERT_OK_AND_ASSIGN(const StepResult result, Round());
    steps += static_cast<int>(result.examples);
  }
  ASSERT_OK(runner_->Flush());
  EXPECT_EQ(shards_.w()[0], MinusSum(steps));
  EXPECT_EQ(Done().size(), static_cast<size_t>(steps));
  EXPECT_EQ(group_->live(), 3u);
  EXPECT_EQ(stats_.Snapshot().replicas_lost(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Overlaps, LossTest, ::testing::Values(NONE, ASYNC),
                         [](const auto& info) { return Overlap_Name(info.param); });

TEST_F(DownpourGroupTest, WithTheLastReplicaTheStepFailsAndNamesItsDevice) {
  Make(2, [](uint32_t, uint64_t step) {
    return step >= 4 ? absl::InternalError("an illegal address in conv2 backward")
                     : absl::OkStatus();
  });
  ASSERT_OK(Round().status());
  ASSERT_OK(Round().status());
  const absl::Status status = Round().status();
  EXPECT_TRUE(IsDeviceError(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("worker/2 replica "), HasSubstr("fake device"), HasSubstr("conv2")));
  EXPECT_EQ(shards_.w()[0], MinusSum(4));  // what was acknowledged stays
}

TEST_F(DownpourGroupTest, ANonFiniteLossOfOneReplicaNamesItsStep) {
  Make(4, nullptr, [](uint64_t step) { return step == 6 ? std::nan("") : 1.0; });
  ASSERT_OK(Round().status());
  const absl::Status status = Round().status();
  EXPECT_TRUE(IsDivergedError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker/2 step 6"));
}

TEST_F(DownpourGroupTest, SkipDropsThatStepOnly) {
  options_.divergence.set_action(DivergencePolicy::SKIP);
  Make(4, nullptr, [](uint64_t step) { return step == 6 ? std::nan("") : 1.0; });
  ASSERT_OK(Round().status());
  ASSERT_OK_AND_ASSIGN(const StepResult result, Round());
  EXPECT_EQ(result.examples, 3u);
  EXPECT_EQ(shards_.w()[0], MinusSum(8) + 7.0f);
  EXPECT_EQ(stats_.Snapshot().steps(), 7u);
  EXPECT_EQ(stats_.Snapshot().refused(), 1u);
  EXPECT_EQ(Done().size(), 8u);
}

}  // namespace
}  // namespace monsoon
