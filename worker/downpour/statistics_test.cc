// DownpourRunner: what a push brings of a network's running statistics.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/downpour/local_updater.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeNetwork;
using testing::FakeShards;

constexpr absl::Duration kLong = absl::Seconds(30);

// Each step halves what it sees.
class HalvingNetwork : public Network {
 public:
  void SetParameters(std::span<const float> parameters) override { parameters_ = parameters; }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey&,
                                             std::span<float> gradient) override {
    std::ranges::transform(parameters_, gradient.begin(), [](float w) { return w / 2; });
    return StepResult{1.0, static_cast<double>(batch.examples), batch.examples};
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch&) override {
    return absl::UnimplementedError("not in this test");
  }
  std::string Fingerprint() const override { return "halving"; }

 private:
  std::span<const float> parameters_;
};

// A model of batch_norm and a dense layer. Step s has the gradient s + 1 everywhere.
class StatisticsTest : public ::testing::Test {
 protected:
  explicit StatisticsTest(ParameterLayout layout = MakeLayout())
      : layout_(std::move(layout)), shards_(layout_.size()), batch_(1, 4) {
    batch_.examples = 1;
    downpour_.set_overlap(NONE);
    downpour_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    control_.TellReplicas(4);
  }

  static ParameterLayout MakeLayout() {
    Model model;
    model.add_input_shape(4);
    model.add_layer()->mutable_batch_norm()->set_no_scale(true);
    Dense* const dense = model.add_layer()->mutable_dense();
    dense->set_units(4);
    dense->set_no_bias(true);
    return *ParameterLayout::Create(model);
  }

  // So many rounds of as many batches as there are replicas.
  void Rounds(int rounds, uint32_t replicas = 1) {
    if (runner_ == nullptr) {
      auto group = ReplicaGroup::Create({0, kLong, &stats_}, replicas, make_network_);
      ASSERT_OK(group.status());
      group_ = *std::move(group);
      auto local = LocalUpdater::Create(downpour_, *ShardMap::Create(layout_.size(), 1),
                                        LocalUpdater::TensorsOf(downpour_, Model(), layout_));
      ASSERT_OK(local.status());
      Job job;
      *job.mutable_downpour() = downpour_;
      runner_ = std::make_unique<DownpourRunner>(DownpourRunnerOptions::From(job, 0), &layout_,
                                                 &shards_, group_.get(), *std::move(local), &stats_,
                                                 &control_, Clock::Real());
    }
    for (int i = 0; i < rounds; ++i) {
      while (runner_->room() > 0) {
        batch_.examples = 1;
        runner_->Add(&batch_, std::nullopt);
      }
      ASSERT_OK(runner_->Step());
    }
  }
  // The last push's, of mean, variance and weight.
  std::vector<float> Pushed() const {
    std::vector<float> first;
    for (const TensorInfo& tensor : layout_.tensors()) {
      first.push_back(shards_.pushed().back()[tensor.offset]);
    }
    return first;
  }

  const ParameterLayout layout_;
  FakeShards shards_;
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  Downpour downpour_;
  std::function<std::unique_ptr<Network>(uint32_t)> make_network_ = [](uint32_t) {
    return std::make_unique<FakeNetwork>();
  };
  std::unique_ptr<ReplicaGroup> group_;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(StatisticsTest, APushBringsWhatAStepMadeOfTheFetched) {
  Rounds(2);  // 0 - 1, which these shards subtract; then 1 - 2
  EXPECT_THAT(Pushed(), ElementsAre(-1, -1, 2));
}

TEST_F(StatisticsTest, ARoundBringsTheMeanOverItsReplicas) {
  Rounds(1, 3);  // gradients 1, 2 and 3
  EXPECT_THAT(Pushed(), ElementsAre(-2, -2, 6));
}

TEST_F(StatisticsTest, WhereNothingMovesThemTheyAreTheMeanOfThePushesSteps) {
  downpour_.set_n_push(3);
  Rounds(3);
  EXPECT_THAT(Pushed(), ElementsAre(-2, -2, 6));
}

// Each push of those before the next fetch begins at the same values.
TEST_F(StatisticsTest, PushesOfOneFetchDoNotAddUp) {
  downpour_.set_n_fetch(5);
  Rounds(5);
  EXPECT_THAT(Pushed(), ElementsAre(-5, -5, 5));
  EXPECT_EQ(shards_.pushed().size(), 5u);
}

TEST_F(StatisticsTest, WhereStepsMoveThemThePushHasTheReplicasOwn) {
  downpour_.set_n_fetch(3);
  downpour_.set_n_push(3);
  downpour_.mutable_local_update()->set_sgd_rate(0.5);
  Rounds(3);
  EXPECT_THAT(Pushed(), ElementsAre(-6, -6, 6));
}

TEST_F(StatisticsTest, LocalStepsMoveThemAsTheyAreAndPushTheReplicasOwn) {
  downpour_.mutable_local()->set_steps(2);
  downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(2.0);
  Rounds(2);
  EXPECT_THAT(Pushed(), ElementsAre(-3, -3, 6));
}

TEST_F(StatisticsTest, LocalStepsOfAGroupMoveThemByTheMean) {
  downpour_.mutable_local()->set_steps(2);
  downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(2.0);
  Rounds(2, 2);  // 1 and 2, then 3 and 4
  EXPECT_THAT(Pushed(), ElementsAre(-5, -5, 20));
}

// What was pushed is not all of what is fetched, and to add it would be 1 - 512 first.
TEST_F(StatisticsTest, WhatIsFetchedUnderOwnStepsComesToAMeanOfBoth) {
  downpour_.set_n_push(4);
  downpour_.mutable_local_update()->set_sgd_rate(0.5);
  make_network_ = [](uint32_t) { return std::make_unique<HalvingNetwork>(); };
  shards_.ApplyForeign(-1024);
  Rounds(1);  // 512
  shards_.ApplyForeign(1023);
  Rounds(3);  // (512 + 1) / 4 and so on
  EXPECT_FLOAT_EQ(Pushed()[0], 8.328125f);
  EXPECT_FLOAT_EQ(Pushed()[1], 8.328125f);
}

TEST_F(StatisticsTest, ShardsThatAverageTakeDifferences) {
  downpour_.mutable_local()->set_steps(2);
  downpour_.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(2.0);
  downpour_.mutable_rounds();
  Rounds(2);
  EXPECT_THAT(Pushed(), ElementsAre(3, 3, 6));
}

TEST_F(StatisticsTest, ClippingNeitherCountsNorChangesThem) {
  downpour_.mutable_optimizer()->set_clip_norm(2.0);
  Rounds(1);
  // 16 weights and 24 floats of padding, which this network fills too, of gradient 1.
  EXPECT_THAT(Pushed(), ElementsAre(-1, -1, ::testing::FloatEq(2.0f / std::sqrt(40.0f))));
}

// A program's, which moves its own by what it has for a gradient.
class ProgramStatisticsTest : public StatisticsTest {
 protected:
  ProgramStatisticsTest() : StatisticsTest(Layout()) {}

  static ParameterLayout Layout() {
    Model model;
    for (const char* name : {"mean", "variance", "weight"}) {
      ModelTensor* const tensor = model.add_tensor();
      tensor->set_name(name);
      tensor->add_shape(4);
      tensor->set_kind(name[0] == 'w' ? ModelTensor::TRAINED : ModelTensor::STATISTIC);
    }
    return *ParameterLayout::Create(model);
  }
  // Steps whose result is pushed as it is.
  void SetLocalSteps(uint32_t steps) {
    downpour_.mutable_local()->set_steps(steps);
    downpour_.mutable_local_update()->set_sgd_rate(1.0);
  }
};

TEST_F(ProgramStatisticsTest, APushBringsWhatTheProgramHas) {
  downpour_.set_n_fetch(5);
  Rounds(3);  // -1, -1 - 2, -3 - 3
  EXPECT_THAT(Pushed(), ElementsAre(-6, -6, 3));
}

TEST_F(ProgramStatisticsTest, OfSeveralStepsItIsTheLast) {
  downpour_.set_n_push(3);
  downpour_.set_n_fetch(3);
  Rounds(3);
  EXPECT_THAT(Pushed(), ElementsAre(-6, -6, 6));
}

TEST_F(ProgramStatisticsTest, OfLocalStepsToo) {
  SetLocalSteps(1);
  Rounds(2);  // The shards have subtracted -1; the next begins there.
  EXPECT_THAT(Pushed(), ElementsAre(-1, -1, 2));
}

// The parameters come with the acknowledgement, while the next step computes.
TEST_F(ProgramStatisticsTest, WhatLandsBeforeAPushIsNotPushedBack) {
  downpour_.set_overlap(ASYNC);
  shards_.combined = true;
  std::counting_semaphore<> computing{0};
  shards_.before_push = [&] {
    computing.acquire();
    return absl::OkStatus();
  };
  make_network_ = [&](uint32_t) {
    auto network = std::make_unique<FakeNetwork>();
    network->before_step = [&](uint64_t step) { step > 0 ? computing.release() : void(); };
    return network;
  };
  Rounds(3);
  computing.release();
  ASSERT_OK(runner_->Flush());
  std::vector<float> means;
  for (const std::vector<float>& push : shards_.pushed()) {
    means.push_back(push[layout_.tensors()[0].offset]);
  }
  // 0 - 1, - 2; then (1 - 3) / 2 - 3, for these shards have subtracted the -1.
  EXPECT_THAT(means, ElementsAre(-1, -3, -4));
}

// Each of the three begins at what was fetched: a mean with what is not pushed yet.
TEST_F(ProgramStatisticsTest, AFetchBetweenTheStepsOfAPushComesToAMean) {
  downpour_.set_n_push(3);
  Rounds(3);  // -1; (0 - 1) / 2 - 2; (0 - 2.5) / 2 - 3
  EXPECT_THAT(Pushed(), ElementsAre(-4.25f, -4.25f, 6));
}

TEST_F(ProgramStatisticsTest, ShardsThatAverageTakeDifferences) {
  SetLocalSteps(1);
  downpour_.mutable_rounds();
  Rounds(1);
  EXPECT_THAT(Pushed(), ElementsAre(1, 1, 1));
}

// A value that is left out would be taken for 0, and one that is rounded beside larger ones may
// become it.
template <typename Base>
class Lossy : public Base, public ::testing::WithParamInterface<WireFormat> {
 protected:
  Lossy() {
    this->downpour_.set_push_format(GetParam());
    this->downpour_.set_n_push(3);
    this->downpour_.set_n_fetch(3);
  }
};
using LossyStatisticsTest = Lossy<StatisticsTest>;
using LossyProgramStatisticsTest = Lossy<ProgramStatisticsTest>;

TEST_P(LossyStatisticsTest, APushBringsWhatIsToBeSubtracted) {
  Rounds(3);
  EXPECT_THAT(Pushed(), ElementsAre(2, 2, 6));
}

TEST_P(LossyProgramStatisticsTest, APushBringsWhatIsToBeSubtracted) {
  Rounds(3);
  EXPECT_THAT(Pushed(), ElementsAre(6, 6, 6));
}

constexpr WireFormat kLossy[] = {INT8, INT4, TOP_K, TOP_K_2BIT};
INSTANTIATE_TEST_SUITE_P(Formats, LossyStatisticsTest, ::testing::ValuesIn(kLossy));
INSTANTIATE_TEST_SUITE_P(Formats, LossyProgramStatisticsTest, ::testing::ValuesIn(kLossy));

}  // namespace
}  // namespace monsoon
