// Several real networks in a group: the same bits as one replica that sums as
// many batches.
#include "common/testing/status_matchers.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/group/evaluator.h"
#include "worker/nn/test_models.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::Each;
using testing::FakeShards;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr uint32_t kBatch = 8;

class SameBitsTest : public ::testing::Test {
 protected:
  SameBitsTest()
      : model_(testing::ParseModel(R"pb(
          input_shape: 12
          layer { dense { units: 20 } }
          layer { tanh {} }
          layer { dropout { rate: 0.3 } }
          layer { dense { units: 3 } }
        )pb")),
        layout_(testing::MakeLayout(model_)) {
    SyntheticSource source;
    source.set_examples(400);
    source.set_classes(3);
    source.set_seed(2);
    data_ = *MakeSynthetic(source, 12, 0, {});
  }

  // The parameters after so many batches of kBatch samples in order.
  std::vector<float> Train(uint32_t replicas, uint32_t every, uint32_t batches,
                           FakeShards* shards) {
    DownpourRunnerOptions options;
    options.overlap = NONE;
    options.n_fetch = every;
    options.n_push = every;
    StatsCollector stats;
    SessionControl control(Clock::Real(), kLong);
    auto group = ReplicaGroup::Create({0, kLong, &stats}, replicas, [&](uint32_t) {
      return CreateNetwork(BackendKind::kCpu, model_, layout_, {});
    });
    EXPECT_OK(group.status());
    DownpourRunner runner(options, &layout_, shards, group->get(), nullptr, &stats, &control,
                          Clock::Real());
    Batch batch(kBatch, 12);
    for (uint32_t next = 0; next < batches;) {
      for (; runner.room() > 0 && next < batches; ++next) {
        std::vector<uint32_t> indices(kBatch);
        for (uint32_t i = 0; i < kBatch; ++i) indices[i] = next * kBatch + i;
        EXPECT_OK(data_->Gather(indices, &batch));
        batch.examples = kBatch;
        runner.Add(&batch, std::nullopt);
      }
      EXPECT_OK(runner.Step().status());
    }
    EXPECT_OK(runner.Flush());
    EXPECT_EQ(stats.Snapshot().steps(), batches);
    return shards->w();
  }

  const Model model_;
  const ParameterLayout layout_;
  std::unique_ptr<DataSource> data_;
};

TEST_F(SameBitsTest, FourReplicasAreOneThatSumsFourBatches) {
  for (const uint32_t batches : {48u, 46u}) {  // with a short round at the end
    FakeShards of_four(layout_.size());
    FakeShards of_one(layout_.size());
    const std::vector<float> four = Train(4, 1, batches, &of_four);
    EXPECT_EQ(four, Train(1, 4, batches, &of_one));
    EXPECT_EQ(of_four.fetches(), 12);
    EXPECT_EQ(of_four.pushed().size(), 12u);
    EXPECT_EQ(of_four.pushed(), of_one.pushed());
    EXPECT_THAT(four, ::testing::Not(Each(0.0f)));
  }
}

TEST(SameBitsEvaluationTest, AnyNumberOfReplicasHasTheSame) {
  StatsCollector stats;
  const Model model = testing::ParseModel(R"pb(
    input_shape: 6
    layer { dense { units: 20 } }
    layer { tanh {} }
    layer { dense { units: 3 } }
  )pb");
  const ParameterLayout layout = testing::MakeLayout(model);
  const std::vector<float> initial = testing::InitialParameters(layout, 1);
  auto parameters = std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(layout.size()));
  std::copy(initial.begin(), initial.end(), parameters->data());
  SyntheticSource source;
  source.set_examples(103);
  source.set_classes(3);
  ASSERT_OK_AND_ASSIGN(const auto data, MakeSynthetic(source, 6, 0, {}));
  std::vector<EvaluationResult> results;
  for (const uint32_t replicas : {1u, 2u, 5u}) {
    ASSERT_OK_AND_ASSIGN(const auto group,
                         ReplicaGroup::Create({2, kLong, &stats}, replicas, [&](uint32_t) {
                           return CreateNetwork(BackendKind::kCpu, model, layout, {});
                         }));
    group->SetParameters(parameters);
    ASSERT_OK_AND_ASSIGN(const EvaluationResult result, EvaluateAll(group.get(), *data, 10));
    results.push_back(result);
  }
  EXPECT_EQ(results[0].examples, 103u);
  for (const EvaluationResult& result : results) {
    EXPECT_EQ(result.loss_sum, results[0].loss_sum);
    EXPECT_EQ(result.correct, results[0].correct);
    EXPECT_EQ(result.examples, results[0].examples);
  }
}

}  // namespace
}  // namespace monsoon
