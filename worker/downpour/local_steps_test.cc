// Local steps (DiLoCo): the replica's own optimizer, and differences for gradients.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/test_models.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeNetwork;
using testing::FakeShards;
using ::testing::FloatNear;

constexpr absl::Duration kLong = absl::Seconds(30);

// Step s has the gradient s + 1, and the shards subtract a difference.
class LocalStepsTest : public ::testing::Test {
 protected:
  LocalStepsTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), batch_(1, 4) {
    batch_.examples = 1;
    downpour_.set_overlap(NONE);
    downpour_.mutable_local()->set_steps(2);
    downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }

  DownpourRunner& Runner() {
    if (runner_ == nullptr) {
      Job job;
      *job.mutable_downpour() = downpour_;
      *job.mutable_divergence() = divergence_;
      auto local = LocalUpdater::Create(downpour_, *ShardMap::Create(layout_.size(), 1));
      EXPECT_OK(local.status());
      runner_ = std::make_unique<DownpourRunner>(DownpourRunnerOptions::From(job, 0), &layout_,
                                                 &shards_, &group_, *std::move(local), &stats_,
                                                 &control_, Clock::Real());
    }
    return *runner_;
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      Runner().Add(&batch_, std::nullopt);
      ASSERT_OK(Runner().Step());
    }
  }
  // The first value of each push.
  std::vector<float> Pushed() const {
    std::vector<float> first;
    for (const std::vector<float>& push : shards_.pushed()) first.push_back(push[0]);
    return first;
  }

  ParameterLayout layout_;
  FakeShards shards_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  Downpour downpour_;
  DivergencePolicy divergence_;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(LocalStepsTest, StepsMoveTheReplicaAndTheirDifferenceIsPushed) {
  Steps(5);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(network_.seen, ElementsAre(0, -1, -3, -6, -10));
  EXPECT_THAT(Pushed(), ElementsAre(3, 7, 5));  // the tail is a short one
  EXPECT_THAT(shards_.parts(), ElementsAre(1, 1, 0.5f));
  EXPECT_THAT(shards_.bases(), ElementsAre(0, 1, 2));
  EXPECT_THAT(shards_.log(), ElementsAre("fetch", "push", "fetch", "push", "fetch", "push"));
}

// The scalar oracle, in double: Adam's state outlives the fetches, and the decay is part of
// the difference.
TEST_F(LocalStepsTest, AdamWOverDifferencesIsItsOracle) {
  constexpr int kSteps = 24, kEach = 4;
  constexpr double kRate = 0.05, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8;
  downpour_.mutable_local()->set_steps(kEach);
  AdamW* const adam_w = downpour_.mutable_local()->mutable_inner()->mutable_adam_w();
  adam_w->set_rate(kRate);
  adam_w->set_weight_decay(kDecay);
  adam_w->set_beta2(kBeta2);
  Steps(kSteps);
  double w = 0, m = 0, v = 0;
  for (int t = 1; t <= kSteps; ++t) {
    ASSERT_NEAR(network_.seen[t - 1], w, 1e-5) << "step " << t;
    const double g = t;
    m = kBeta1 * m + (1 - kBeta1) * g;
    v = kBeta2 * v + (1 - kBeta2) * g * g;
    w -= kRate * kDecay * w;
    w -= kRate * (m / (1 - std::pow(kBeta1, t))) /
         (std::sqrt(v / (1 - std::pow(kBeta2, t))) + kEpsilon);
  }
  EXPECT_THAT(shards_.w(), Each(FloatNear(static_cast<float>(w), 1e-5f)));
  EXPECT_EQ(shards_.pushed().size(), size_t{kSteps} / kEach);
}

TEST_F(LocalStepsTest, UnderOverlapNothingIsLostOrCountedTwice) {
  constexpr int kSteps = 300;
  for (const auto& [mapped, combined] :
       {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}}) {
    FakeShards shards(layout_.size());
    shards.mapped = mapped;
    shards.combined = combined;
    FakeNetwork network;
    ReplicaGroup group({}, &network);
    Job job;
    *job.mutable_downpour() = downpour_;
    job.mutable_downpour()->set_overlap(ASYNC);
    job.mutable_downpour()->mutable_local()->set_steps(3);
    auto local = LocalUpdater::Create(job.downpour(), *ShardMap::Create(layout_.size(), 1));
    ASSERT_OK(local.status());
    DownpourRunner runner(DownpourRunnerOptions::From(job, 0), &layout_, &shards, &group,
                          *std::move(local), &stats_, &control_, Clock::Real());
    for (int i = 0; i < kSteps; ++i) {
      runner.Add(&batch_, std::nullopt);
      ASSERT_OK(runner.Step());
    }
    ASSERT_OK(runner.Flush());
    float expected = 0;
    for (int s = 0; s < kSteps; ++s) {
      ASSERT_EQ(network.seen[s], expected) << "step " << s;
      expected -= static_cast<float>(s + 1);
    }
    EXPECT_EQ(shards.w()[0], expected);
    EXPECT_EQ(shards.pushed().size(), 100u);
  }
}

// Pushes that are never acknowledged while steps are made do not put off the fetch for ever.
TEST_F(LocalStepsTest, EachDifferenceIsBasedOnAFetchThatHasTheOneBefore) {
  downpour_.set_overlap(ASYNC);
  downpour_.mutable_local()->set_steps(1);
  Steps(20);
  ASSERT_OK(Runner().Flush());
  const std::vector<uint64_t> bases = shards_.bases();
  ASSERT_EQ(bases.size(), 20u);
  for (size_t push = 1; push < bases.size(); ++push) {
    EXPECT_GE(bases[push] + 1, push) << push;  // one may be in flight
  }
}

TEST_F(LocalStepsTest, ARefusedDifferenceIsGivenUpWithTheOptimizersState) {
  Momentum* const momentum = downpour_.mutable_local()->mutable_inner()->mutable_momentum();
  momentum->set_rate(1.0);
  momentum->set_momentum(0.5);
  shards_.RefuseNext(1);
  Steps(4);
  // v: 1, 2.5; given up; 3, 5.5.
  EXPECT_THAT(network_.seen, ElementsAre(0, -1, 0, -3));
  EXPECT_THAT(Pushed(), ElementsAre(3.5, 8.5));
  EXPECT_THAT(shards_.w(), Each(-8.5f));
}

TEST_F(LocalStepsTest, UnderOverlapNoStepIsMadeFromARefusedDifference) {
  downpour_.set_overlap(ASYNC);
  shards_.RefuseNext(1);
  Steps(40);
  ASSERT_OK(Runner().Flush());
  // Whatever was made meanwhile is pushed, or was given up with the refused one.
  float sum = 0;
  const std::vector<float> pushed = Pushed();
  for (size_t i = 1; i < pushed.size(); ++i) sum += pushed[i];
  EXPECT_THAT(shards_.w(), Each(-sum));
  EXPECT_EQ(pushed.size(), 20u);
  EXPECT_EQ(network_.seen.back(), shards_.w()[0] + 40.0f);
}

class NonFiniteTest : public LocalStepsTest, public ::testing::WithParamInterface<Overlap> {};

TEST_P(NonFiniteTest, AReplicaThatLeftTheFiniteNumbersGoesBackToItsBase) {
  downpour_.set_overlap(GetParam());
  downpour_.mutable_local()->set_steps(4);
  divergence_.set_action(DivergencePolicy::SKIP);
  network_.spoil = [](uint64_t step, std::span<float> gradient) {
    if (step == 1) gradient[0] = std::numeric_limits<float>::infinity();
  };
  network_.loss = [](uint64_t step) { return step == 2 ? std::nan("") : 1.0; };
  Steps(5);
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(network_.seen, ElementsAre(0, -1, -std::numeric_limits<float>::infinity(), 0, -4));
  EXPECT_THAT(Pushed(), ElementsAre(9));  // of the steps 4 and 5
  EXPECT_THAT(shards_.w(), Each(-9.0f));
}

INSTANTIATE_TEST_SUITE_P(Overlaps, NonFiniteTest, ::testing::Values(NONE, ASYNC));

TEST_F(LocalStepsTest, ALongDifferenceIsScaled) {
  downpour_.mutable_optimizer()->set_clip_norm(6.0);  // of 16 values: 1.5 each
  Steps(2);
  EXPECT_THAT(Pushed(), ElementsAre(FloatNear(1.5f, 1e-6f)));
}

TEST_F(LocalStepsTest, AStepsGradientIsScaled) {
  downpour_.mutable_local()->mutable_inner()->set_clip_norm(8.0);  // of 16 values: 2 each
  Steps(4);                                                        // the gradients 1, 2, 3, 4
  EXPECT_THAT(Pushed(), ElementsAre(FloatNear(3, 1e-5f), FloatNear(4, 1e-5f)));
}

TEST_F(LocalStepsTest, AWorkerThatIsToldSoTakesFewerStepsFromTheNextDifferenceOn) {
  downpour_.mutable_local()->set_steps(4);
  downpour_.mutable_local()->set_dynamic(true);
  Steps(1);
  control_.TellLocalSteps(2);
  Steps(5);  // the first difference takes four
  EXPECT_THAT(Pushed(), ElementsAre(1 + 2 + 3 + 4, 5 + 6));
  control_.TellLocalSteps(100);  // more than the job allows
  Steps(4);
  EXPECT_THAT(Pushed(), ElementsAre(10, 11, 7 + 8 + 9 + 10));
}

// The schedule goes on where the others are; the warm-up begins anew.
TEST_F(LocalStepsTest, ASessionThatBeginsLateGoesOnWithTheSchedule) {
  for (int i = 0; i < 10; ++i) shards_.ApplyForeign(0.0f);
  Schedule* const schedule = downpour_.mutable_local()->mutable_inner()->mutable_schedule();
  schedule->mutable_step()->set_every_pushes(10);  // 10 pushes of 2 steps by 2 replicas
  schedule->mutable_step()->set_factor(0.5);
  schedule->set_warm_up_pushes(2);
  control_.TellReplicas(2);
  Steps(2);
  EXPECT_THAT(Pushed(), ElementsAre(0.25f * 1 + 0.5f * 2));
}

TEST(DownpourOptionsTest, WhatAProgramKeepsIsItsOwn) {
  Job job;
  EXPECT_FALSE(DownpourRunnerOptions::From(job, 0).of_program);
  job.mutable_train()->mutable_joiners();
  EXPECT_TRUE(DownpourRunnerOptions::From(job, 0).of_program);
}

// With one step, sgd inside and a shard that subtracts, a difference is the gradient.
TEST(LocalStepsBitsTest, OneLocalStepIsDownpour) {
  const Model model = testing::ParseModel(R"pb(
    input_shape: 12
    layer { dense { units: 20 } }
    layer { tanh {} }
    layer { dense { units: 3 } }
  )pb");
  const ParameterLayout layout = testing::MakeLayout(model);
  SyntheticSource source;
  source.set_examples(800);
  source.set_classes(3);
  source.set_seed(2);
  ASSERT_OK_AND_ASSIGN(const auto data, MakeSynthetic(source, 12, 0, {}));
  const auto train = [&](bool differences) {
    Job job;
    job.mutable_downpour()->set_overlap(NONE);
    if (differences) {
      job.mutable_downpour()->mutable_local()->set_steps(1);
      job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
    }
    auto local = LocalUpdater::Create(job.downpour(), *ShardMap::Create(layout.size(), 1));
    EXPECT_OK(local.status());
    auto network = CreateNetwork(BackendKind::kCpu, model, layout, {});
    EXPECT_OK(network.status());
    StatsCollector stats;
    SessionControl control(Clock::Real(), kLong);
    FakeShards shards(layout.size());
    ReplicaGroup group({}, network->get());
    DownpourRunner runner(DownpourRunnerOptions::From(job, 0), &layout, &shards, &group,
                          *std::move(local), &stats, &control, Clock::Real());
    Batch batch(8, 12);
    for (uint32_t step = 0; step < 100; ++step) {
      std::vector<uint32_t> indices(8);
      for (uint32_t i = 0; i < 8; ++i) indices[i] = step * 8 + i;
      EXPECT_OK(data->Gather(indices, &batch));
      batch.examples = 8;
      runner.Add(&batch, std::nullopt);
      EXPECT_OK(runner.Step().status());
    }
    return shards.w();
  };
  const std::vector<float> downpour = train(false);
  EXPECT_EQ(train(true), downpour);
  EXPECT_THAT(downpour, ::testing::Not(Each(0.0f)));
}

// A difference keeps the length and the rate that it began with.
TEST_F(LocalStepsTest, StepsAndRatesChangeWhereADifferenceBegins) {
  Steps(3);  // one more is to come
  downpour_.mutable_local()->set_steps(3);
  downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.5);
  control_.TellSettings(1, downpour_);
  Steps(1);
  EXPECT_THAT(Pushed(), ElementsAre(1 + 2, 3 + 4));
  EXPECT_EQ(control_.taken_settings(), 0u);
  Steps(6);
  EXPECT_THAT(Pushed(), ElementsAre(3, 7, 0.5f * (5 + 6 + 7), 0.5f * (8 + 9 + 10)));
  EXPECT_EQ(control_.taken_settings(), 1u);
  EXPECT_THAT(shards_.parts(), Each(1));
  downpour_.mutable_local()->set_steps(1);
  control_.TellSettings(2, downpour_);
  Steps(2);
  EXPECT_THAT(Pushed(), ElementsAre(3, 7, 9, 13.5f, 5.5f, 6));
}

}  // namespace
}  // namespace monsoon
