// Rounds of one worker alone, whose differences are of one step: Downpour.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/test_models.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Not;
using ::testing::Pointwise;

constexpr absl::Duration kLong = absl::Seconds(30);

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
    job.mutable_downpour()->mutable_local()->set_steps(1);
    job.mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1.0);
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
    EXPECT_OK(data->Gather(indices, &batch));
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
  EXPECT_THAT(train(Rounds()), Pointwise(FloatNear(1e-6f), downpour));
  auto network = *CreateNetwork(BackendKind::kCpu, model, layout, {});
  EXPECT_THAT(Train(model, {}, 1, network.get()), Not(Pointwise(FloatNear(1e-2f), downpour)));
}

TEST(RoundOfOneTest, WhereNothingRoundsTheBitsAreThoseOfDownpour) {
  Model model;
  model.add_input_shape(4);
  Dense* const dense = model.add_layer()->mutable_dense();
  dense->set_units(8);
  dense->set_no_bias(true);
  dense->mutable_weight_initializer()->set_constant(0.5);
  const auto train = [&](std::optional<Rounds> rounds) {
    testing::FakeNetwork network;  // its gradients are 1, 2, 3, ...
    return Train(model, std::move(rounds), 100, &network);
  };
  const std::vector<float> downpour = train({});
  EXPECT_EQ(train(Rounds()), downpour);
  EXPECT_THAT(downpour, Each(0.5f - 5050.0f));
}

}  // namespace
}  // namespace monsoon
