// Differences that shards average in rounds: their weights, an idle replica, and one worker alone.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "ps_server/testing/test_shards.h"
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
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(30);

// Keeps the weights of pushes, and says in the log who passes.
class WeighedShards : public FakeShards {
 public:
  using FakeShards::FakeShards;

  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    weights.push_back(gradient.weight);
    return FakeShards::Push(gradient, base);
  }
  absl::Status Pass() override {
    passed_after.push_back(weights.size());
    return pass_fails ? absl::UnavailableError("ps/0: away") : absl::OkStatus();
  }

  std::vector<float> weights;
  std::vector<size_t> passed_after;  // pushes
  bool pass_fails = false;
};

// With overlap NONE, so that nothing is called on another thread.
class DownpourRoundsTest : public ::testing::Test {
 protected:
  DownpourRoundsTest() : layout_(testing::SmallLayout()), shards_(layout_.size()), batch_(4, 4) {
    job_.set_batch_size(4);
    job_.mutable_downpour()->set_overlap(NONE);
    job_.mutable_downpour()->set_local_steps(2);
    job_.mutable_downpour()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }

  DownpourRunner& Runner() {
    if (runner_ == nullptr) {
      auto local = LocalUpdater::Create(job_.downpour(), *ShardMap::Create(layout_.size(), 1));
      EXPECT_OK(local.status());
      runner_ = std::make_unique<DownpourRunner>(
          DownpourRunnerOptions::From(job_, 0), &layout_, &shards_, &group_, *std::move(local),
          &stats_, &control_, Clock::Real(), DifferenceWeigher(job_, 1));
    }
    return *runner_;
  }
  // Of batches of so many samples.
  void Steps(std::initializer_list<uint32_t> examples) {
    for (const uint32_t each : examples) {
      batch_.examples = each;
      Runner().Add(&batch_, std::nullopt);
      ASSERT_OK(Runner().Step());
    }
  }

  ParameterLayout layout_;
  WeighedShards shards_;
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  Batch batch_;
  Job job_;
  std::unique_ptr<DownpourRunner> runner_;
};

TEST_F(DownpourRoundsTest, ADifferenceOfRoundsWeighsItsSteps) {
  job_.mutable_downpour()->mutable_rounds();
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Flush());  // a short one
  EXPECT_THAT(shards_.weights, ElementsAre(1.0f, 0.5f));
}

TEST_F(DownpourRoundsTest, SamplesWeighAsTheJobSays) {
  job_.mutable_downpour()->set_weight(TOKENS);
  job_.mutable_downpour()->set_weight_reference(16);
  Steps({4, 4, 4, 1});
  EXPECT_THAT(shards_.weights, ElementsAre(0.5f, 5.0f / 16));
}

TEST_F(DownpourRoundsTest, WithoutRoundsAndWeightsEachCountsWhole) {
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Flush());
  EXPECT_THAT(shards_.weights, ElementsAre(1.0f, 1.0f));
}

TEST_F(DownpourRoundsTest, AnIdleReplicaPushesWhatItHasAndPasses) {
  job_.mutable_downpour()->mutable_rounds();
  Steps({4, 4, 4});
  EXPECT_EQ(shards_.weights.size(), 1u);
  ASSERT_OK(Runner().Idle());
  EXPECT_THAT(shards_.passed_after, ElementsAre(2u));
  shards_.pass_fails = true;  // said again as long as it is idle
  ASSERT_OK(Runner().Idle());
  EXPECT_THAT(shards_.passed_after, ElementsAre(2u, 2u));
}

TEST_F(DownpourRoundsTest, WithoutRoundsAnIdleReplicaKeepsItsSteps) {
  Steps({4, 4, 4});
  ASSERT_OK(Runner().Idle());
  EXPECT_EQ(shards_.weights.size(), 1u);
  EXPECT_THAT(shards_.passed_after, ElementsAre());
}

// One worker on two shards that subtract what they get; the parameters after `steps` gradients.
std::vector<float> Train(const Model& model, std::optional<Rounds> rounds, uint64_t steps,
                         Network* network) {
  TestShardsOptions cluster;
  cluster.shards = 2;
  auto shards = *TestShards::Start(cluster);
  TestJobOptions options;
  options.model = model;
  options.optimizer = TestSgd(1.0);
  options.max_stripe_bytes = 64;
  options.rounds = rounds;
  const TestJob test_job = *shards->CreateJob(options);
  auto client = *shards->Join(test_job, 0);

  Job job;
  job.mutable_downpour()->set_overlap(NONE);
  job.set_batch_size(8);
  if (rounds.has_value()) {
    *job.mutable_downpour()->mutable_rounds() = *rounds;
    job.mutable_downpour()->set_local_steps(1);
    job.mutable_downpour()->mutable_inner()->mutable_sgd()->set_rate(1.0);
  }
  auto local = LocalUpdater::Create(job.downpour(), test_job.map);
  EXPECT_OK(local.status());
  StatsCollector stats;
  SessionControl control(Clock::Real(), kLong);
  ReplicaGroup group({}, network);
  DownpourRunner runner(DownpourRunnerOptions::From(job, 0), &test_job.layout, client.get(), &group,
                        *std::move(local), &stats, &control, Clock::Real(),
                        DifferenceWeigher(job, 1));
  SyntheticSource source;
  source.set_examples(static_cast<uint32_t>(8 * steps));
  source.set_classes(3);
  source.set_seed(2);
  const uint32_t inputs = model.input_shape(0);
  const auto data = *MakeSynthetic(source, inputs, 0, {});
  Batch batch(8, inputs);
  for (uint32_t step = 0; step < steps; ++step) {
    std::vector<uint32_t> indices(8);
    for (uint32_t i = 0; i < 8; ++i) indices[i] = step * 8 + i;
    data->Gather(indices, &batch);
    batch.examples = 8;
    runner.Add(&batch, std::nullopt);
    EXPECT_OK(runner.Step().status());
  }
  std::vector<float> w(test_job.map.size());
  FetchMarks marks;
  EXPECT_OK(client->Fetch(w, &marks, nullptr));
  EXPECT_EQ(marks.shard[1][0].version, steps);
  return w;
}

// With one step, sgd inside and outside and nobody else, a round is a gradient; what its sum
// rounds is below 2^-40.
TEST(RoundOfOneTest, OneLocalStepIsDownpour) {
  const Model model = testing::ParseModel(R"pb(
    input_shape: 12
    layer { dense { units: 20 } }
    layer { tanh {} }
    layer { dense { units: 3 } }
  )pb");
  const ParameterLayout layout = testing::MakeLayout(model);
  const auto train = [&](std::optional<Rounds> rounds) {
    auto network = *CreateNetwork(BackendKind::kCpu, model, layout, {});
    return Train(model, std::move(rounds), 100, network.get());
  };
  const std::vector<float> downpour = train({});
  EXPECT_THAT(train(Rounds()), ::testing::Pointwise(::testing::FloatNear(1e-6f), downpour));
  auto network = *CreateNetwork(BackendKind::kCpu, model, layout, {});
  EXPECT_THAT(Train(model, {}, 1, network.get()),
              Not(::testing::Pointwise(::testing::FloatNear(1e-2f), downpour)));
}

TEST(RoundOfOneTest, WhereNothingRoundsTheBitsAreThoseOfDownpour) {
  Model model;
  model.add_input_shape(4);
  Dense* const dense = model.add_layer()->mutable_dense();
  dense->set_units(8);
  dense->set_no_bias(true);
  dense->mutable_weight_initializer()->set_constant(0.5);
  const auto train = [&](std::optional<Rounds> rounds) {
    FakeNetwork network;  // its gradients are 1, 2, 3, ...
    return Train(model, std::move(rounds), 100, &network);
  };
  const std::vector<float> downpour = train({});
  EXPECT_EQ(train(Rounds()), downpour);
  EXPECT_THAT(downpour, Each(0.5f - 5050.0f));
}

}  // namespace
}  // namespace monsoon
