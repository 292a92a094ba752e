#include "worker/downpour/local_updater.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "proto/downpour.pb.h"
#include "proto/model.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::Each;
using testing::StatusIs;

constexpr size_t kFloats = 48;

// Two shards: two stripes and one, 16 floats each.
ShardMap Map() { return *ShardMap::Create(kFloats, 2, 64); }

FetchMarks Applied(uint64_t a, uint64_t b, uint64_t c) {
  FetchMarks marks;
  const ShardMap map = Map();
  const uint64_t applied[] = {a, b, c};
  int next = 0;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    marks.shard.emplace_back();
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      marks.shard.back().push_back({1, 0, applied[next++]});
    }
  }
  return marks;
}

std::unique_ptr<LocalUpdater> Sgd(double rate) {
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(rate);
  return *LocalUpdater::Create(downpour, Map());
}

TEST(LocalUpdaterTest, NoneIsNull) {
  ASSERT_OK_AND_ASSIGN(auto none, LocalUpdater::Create(Downpour(), Map()));
  EXPECT_EQ(none, nullptr);
}

TEST(LocalUpdaterTest, RefusesANonFiniteRate) {
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(std::numeric_limits<double>::infinity());
  EXPECT_THAT(LocalUpdater::Create(downpour, Map()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("local_update")));
}

TEST(LocalUpdaterTest, EachStripeGetsExactlyWhatItLacks) {
  auto local = Sgd(1.0);
  std::vector<float> w(kFloats, 0.0f);
  const auto step = [&](float g) { local->Step(std::vector<float>(kFloats, g), w); };
  step(1);
  step(2);
  ASSERT_OK(local->Seal(1));  // 3
  step(4);
  ASSERT_OK(local->Seal(2));
  step(8);  // open
  EXPECT_THAT(w, Each(-15.0f));
  // The fetched vector: the first stripe has both pushes, the second one, the
  // third none.
  std::vector<float> fetched(kFloats, 100.0f);
  local->Rebase(Applied(2, 1, 0), fetched);
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(fetched[i], 100.0f - (i < 16 ? 8 : i < 32 ? 12 : 15)) << i;
  }
  EXPECT_EQ(local->pending(), 2u);
  std::fill(fetched.begin(), fetched.end(), 100.0f);
  local->Rebase(Applied(2, 2, 2), fetched);
  EXPECT_THAT(fetched, Each(92.0f));
  EXPECT_EQ(local->pending(), 0u);
}

TEST(LocalUpdaterTest, ARefusedPushIsNotPutBack) {
  auto local = Sgd(1.0);
  std::vector<float> w(kFloats, 0.0f);
  local->Step(std::vector<float>(kFloats, 5.0f), w);
  ASSERT_OK(local->Seal(1));
  local->Drop(1);
  std::vector<float> fetched(kFloats, 1.0f);
  local->Rebase(Applied(0, 0, 0), fetched);
  EXPECT_THAT(fetched, Each(1.0f));
}

TEST(LocalUpdaterTest, AcknowledgedPushesAreForgottenInOrder) {
  auto local = Sgd(1.0);
  std::vector<float> w(kFloats, 0.0f);
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    local->Step(std::vector<float>(kFloats, 1.0f), w);
    ASSERT_OK(local->Seal(sequence));
  }
  local->Acknowledge(1);
  local->Acknowledge(2);
  local->ForgetAcknowledged();
  EXPECT_EQ(local->pending(), 1u);
}

TEST(LocalUpdaterTest, AdagradKeepsItsOwnAccumulator) {
  Downpour downpour;
  downpour.mutable_local_update()->set_adagrad_rate(0.5);
  ASSERT_OK_AND_ASSIGN(auto local, LocalUpdater::Create(downpour, Map()));
  std::vector<float> w(kFloats, 0.0f);
  local->Step(std::vector<float>(kFloats, 3.0f), w);  // h = 9: moves by 0.5 * 3 / 3
  EXPECT_NEAR(w[0], -0.5, 1e-6);
  local->Step(std::vector<float>(kFloats, 4.0f), w);  // h = 25: by 0.5 * 4 / 5
  EXPECT_NEAR(w[0], -0.9, 1e-6);
  // A fetch that contains neither puts both displacements back; h stays.
  ASSERT_OK(local->Seal(1));
  std::vector<float> fetched(kFloats, 0.0f);
  local->Rebase(Applied(0, 0, 0), fetched);
  EXPECT_NEAR(fetched[0], -0.9, 1e-6);
  local->Step(std::vector<float>(kFloats, 12.0f), fetched);  // h = 169
  EXPECT_NEAR(fetched[0], -0.9 - 0.5 * 12 / 13, 1e-6);
}

TEST(LocalUpdaterTest, StatisticsMoveAsTheyDoOnTheShards) {
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(0.5);
  ASSERT_OK_AND_ASSIGN(auto local, LocalUpdater::Create(downpour, Map(), {.statistics = {{0, 2}}}));
  std::vector<float> w(kFloats, 0.0f);
  local->Step(std::vector<float>(kFloats, 3.0f), w);
  EXPECT_EQ(w[1], -3.0f);
  EXPECT_EQ(w[2], -1.5f);
}

// Of so many dense layers of four units.
Model DenseModel(int layers) {
  Model model;
  model.add_input_shape(4);
  for (int i = 0; i < layers; ++i) {
    model.add_layer()->mutable_dense()->set_units(4);
  }
  return model;
}

ParameterLayout DenseLayers(int layers) { return *ParameterLayout::Create(DenseModel(layers)); }

// Of a step with gradients of 4.
std::vector<float> Moved(const Downpour& downpour, int layers) {
  const ParameterLayout layout = DenseLayers(layers);
  auto local = *LocalUpdater::Create(downpour, *ShardMap::Create(layout.size(), 1),
                                     LocalUpdater::TensorsOf(downpour, DenseModel(layers), layout));
  std::vector<float> w(layout.size(), 0.0f);
  local->Step(std::vector<float>(layout.size(), 4.0f), w);
  return w;
}

// Its rate stands for theirs, and what is frozen there stays.
TEST(LocalUpdaterTest, TensorsOfAGroupMoveAsTheyDoOnTheShards) {
  const ParameterLayout layout = DenseLayers(2);
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(0.5);
  downpour.mutable_optimizer()->mutable_adam_w()->set_rate(0.01);
  OptimizerGroup* const slow = downpour.mutable_optimizer()->add_group();
  slow->add_tensors("dense1/*");
  slow->set_rate(0.0025);
  OptimizerGroup* const frozen = downpour.mutable_optimizer()->add_group();
  frozen->add_tensors("*bias");
  frozen->set_frozen(true);
  const std::vector<float> w = Moved(downpour, 2);
  for (const TensorInfo& tensor : layout.tensors()) {
    const float moved = tensor.name == "dense2/bias"     ? 0.0f
                        : tensor.name == "dense2/weight" ? -2.0f
                                                         : -0.5f;
    EXPECT_FLOAT_EQ(w[tensor.offset], moved) << tensor.name;
    EXPECT_FLOAT_EQ(w[tensor.offset + tensor.size - 1], moved) << tensor.name;
  }
}

// Those of the inner optimizer, whatever the shards' are.
TEST(LocalUpdaterTest, AnInnerOptimizerHasGroupsOfItsOwn) {
  const ParameterLayout layout = DenseLayers(1);
  Downpour downpour;
  downpour.mutable_local()->set_steps(10);
  downpour.mutable_optimizer()->mutable_sgd()->set_rate(1);
  OptimizerGroup* const outer = downpour.mutable_optimizer()->add_group();
  outer->add_tensors("*");
  outer->set_frozen(true);
  Optimizer* const inner = downpour.mutable_local()->mutable_inner();
  inner->mutable_sgd()->set_rate(1);
  OptimizerGroup* const slow = inner->add_group();
  slow->add_tensors("*bias");
  slow->set_rate_factor(0.25);
  const std::vector<float> w = Moved(downpour, 1);
  for (const TensorInfo& tensor : layout.tensors()) {
    EXPECT_FLOAT_EQ(w[tensor.offset], tensor.name == "dense1/bias" ? -1.0f : -4.0f) << tensor.name;
  }
}

// All gradients are alike, a matrix of rank 1, whose only singular value is its norm: after one
// iteration that is 3.4445 - 4.775 + 2.0315 = 0.701, a quarter of it in each of 16 places.
TEST(LocalUpdaterTest, MuonMovesTheMatricesOfAnInnerOptimizer) {
  Downpour downpour;
  downpour.mutable_local()->set_steps(10);
  Optimizer* const inner = downpour.mutable_local()->mutable_inner();
  inner->mutable_sgd()->set_rate(0.5);
  inner->mutable_muon()->set_rate(1);
  inner->mutable_muon()->set_steps(1);
  OptimizerGroup* const slow = inner->add_group();
  slow->add_tensors("dense2/weight");
  slow->set_rate_factor(0.5);
  const std::vector<float> w = Moved(downpour, 3);
  const ParameterLayout layout = DenseLayers(3);
  for (const TensorInfo& tensor : layout.tensors()) {
    const float moved = tensor.name == "dense2/weight" ? -1.0f
                        : tensor.shape.size() == 1     ? -2.0f
                                                       : -0.701f / 4;
    EXPECT_NEAR(w[tensor.offset], moved, 1e-6) << tensor.name;
    EXPECT_NEAR(w[tensor.offset + tensor.size - 1], moved, 1e-6) << tensor.name;
  }
}

// What its steps moved is what leaves, and a restart forgets its momentum.
TEST(LocalUpdaterTest, MuonsStepsAreADifferenceAndBeginAnew) {
  const Model model = DenseModel(1);
  const ParameterLayout layout = DenseLayers(1);
  Downpour downpour;
  Optimizer* const inner = downpour.mutable_local()->mutable_inner();
  inner->mutable_adam_w()->set_rate(0.01);
  inner->mutable_muon()->set_rate(0.1);
  ASSERT_OK_AND_ASSIGN(auto local,
                       LocalUpdater::Create(downpour, *ShardMap::Create(layout.size(), 1),
                                            LocalUpdater::TensorsOf(downpour, model, layout)));
  std::vector<float> first(layout.size()), second(layout.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    first[i] = static_cast<float>(i * i % 7) - 3.0f;
    second[i] = static_cast<float>(i * i % 5) - 2.0f;
  }
  const std::vector<float> begun(layout.size(), 1.0f);
  std::vector<float> w = begun;
  local->Step(first, w);
  const std::vector<float> after_first = w;
  local->Step(second, w);
  for (size_t i = 0; i < layout.size(); ++i) {
    EXPECT_NEAR(local->moved()[i], w[i] - begun[i], 1e-6) << i;
  }
  EXPECT_NE(w, after_first);
  local->Restart();
  w = begun;
  local->Step(first, w);
  EXPECT_EQ(w, after_first);
}

TEST(LocalUpdaterTest, RefusesAMuonWithoutMatrices) {
  Downpour downpour;
  downpour.mutable_local()->mutable_inner()->mutable_sgd()->set_rate(1);
  downpour.mutable_local()->mutable_inner()->mutable_muon()->set_rate(1);
  EXPECT_THAT(LocalUpdater::Create(downpour, Map()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("inner: optimizer.muon: there is no matrix for it")));
}

// The rate is what the shards will use: k is the fetched version, and one more
// for each own push that it lacks.
TEST(LocalUpdaterTest, TheRateFollowsTheSchedule) {
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(1.0);
  downpour.mutable_optimizer()->mutable_schedule()->set_warm_up_pushes(10);
  ASSERT_OK_AND_ASSIGN(auto local, LocalUpdater::Create(downpour, Map()));
  std::vector<float> w(kFloats, 0.0f);
  const auto moved = [&] {
    const float before = w[0];
    local->Step(std::vector<float>(kFloats, -1.0f), w);
    return w[0] - before;
  };
  EXPECT_NEAR(moved(), 0.1, 1e-6);
  EXPECT_NEAR(moved(), 0.1, 1e-6);  // of the same push
  ASSERT_OK(local->Seal(1));
  EXPECT_NEAR(moved(), 0.2, 1e-6);
  ASSERT_OK(local->Seal(2));
  // The fetch has five pushes, ours among them the first.
  FetchMarks marks = Applied(1, 1, 1);
  for (auto& shard : marks.shard) {
    for (StripeMark& stripe : shard) stripe.version = 5;
  }
  local->Rebase(marks, w);
  EXPECT_NEAR(moved(), 0.7, 1e-6);  // k = 5 and one on top
}

// ---- inner optimizers ----

std::unique_ptr<LocalUpdater> Inner(Optimizer inner) {
  Downpour downpour;
  *downpour.mutable_local()->mutable_inner() = std::move(inner);
  return *LocalUpdater::Create(downpour, Map());
}

TEST(LocalUpdaterTest, AnInnerOptimizerKeepsItsStateOverFetches) {
  Optimizer inner;
  inner.mutable_momentum()->set_rate(1.0);
  inner.mutable_momentum()->set_momentum(0.5);
  auto local = Inner(inner);
  std::vector<float> w(kFloats, 0.0f);
  local->Step(std::vector<float>(kFloats, 1.0f), w);  // v = 1
  local->Step(std::vector<float>(kFloats, 1.0f), w);  // v = 1.5
  EXPECT_THAT(local->moved(), Each(-2.5f));
  ASSERT_OK(local->Seal(1));
  EXPECT_THAT(local->moved(), Each(0.0f));
  local->Rebase(Applied(1, 1, 1), w);
  local->Step(std::vector<float>(kFloats, 1.0f), w);  // v = 1.75
  EXPECT_THAT(local->moved(), Each(-1.75f));
  local->Restart();
  EXPECT_THAT(local->moved(), Each(0.0f));
  local->Step(std::vector<float>(kFloats, 1.0f), w);  // v = 1
  EXPECT_THAT(local->moved(), Each(-1.0f));
}

Optimizer HalvedEveryTwoSteps() {
  Optimizer inner;
  inner.mutable_sgd()->set_rate(1.0);
  inner.mutable_schedule()->mutable_step()->set_every_pushes(2);
  inner.mutable_schedule()->mutable_step()->set_factor(0.5);
  return inner;
}

TEST(LocalUpdaterTest, AnInnerScheduleCountsTheReplicasSteps) {
  auto local = Inner(HalvedEveryTwoSteps());
  local->GoOnAfter(1);
  std::vector<float> w(kFloats, 0.0f);
  FetchMarks marks = Applied(0, 0, 0);
  marks.shard[0][0].version = 100;  // says nothing to it
  local->Rebase(marks, w);
  local->Step(std::vector<float>(kFloats, -1.0f), w);
  local->Step(std::vector<float>(kFloats, -1.0f), w);
  local->Step(std::vector<float>(kFloats, -1.0f), w);
  EXPECT_THAT(w, Each(1.0f + 0.5f + 0.5f));
}

// A refused difference costs what it moved and the optimizer's state, not the schedule.
TEST(LocalUpdaterTest, AnInnerScheduleGoesOnAfterARestart) {
  auto local = Inner(HalvedEveryTwoSteps());
  local->GoOnAfter(1);
  std::vector<float> w(kFloats, 0.0f);
  const std::vector<float> gradient(kFloats, -1.0f);
  local->Step(gradient, w);  // the second step of all, with the rate 1
  local->Step(gradient, w);
  local->Restart();
  std::ranges::fill(w, 0.0f);
  local->Step(gradient, w);  // the fourth
  local->Step(gradient, w);
  EXPECT_THAT(w, Each(0.5f + 0.25f));
  local->Restart();
  local->Restart();
  std::ranges::fill(w, 0.0f);
  local->Step(gradient, w);  // the sixth
  EXPECT_THAT(w, Each(0.25f));
}

TEST(LocalUpdaterTest, RefusesAnInnerOptimizerWithoutARate) {
  Downpour downpour;
  downpour.mutable_local()->mutable_inner()->mutable_adam_w();
  EXPECT_THAT(LocalUpdater::Create(downpour, Map()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("inner")));
}

TEST(LocalUpdaterTest, RatesChangeAndTheStateAndTheScheduleGoOn) {
  Downpour downpour;
  downpour.mutable_local()->set_steps(10);
  Optimizer* const inner = downpour.mutable_local()->mutable_inner();
  inner->mutable_momentum()->set_rate(1.0);
  inner->mutable_momentum()->set_momentum(0.5);
  inner->mutable_schedule()->mutable_step()->set_every_pushes(2);
  inner->mutable_schedule()->mutable_step()->set_factor(0.5);
  ASSERT_OK_AND_ASSIGN(const auto local, LocalUpdater::Create(downpour, Map()));
  const std::vector<float> gradient(kFloats, 1.0f);
  std::vector<float> w(kFloats, 0.0f);
  local->Step(gradient, w);  // v = 1
  local->Step(gradient, w);  // v = 1.5
  EXPECT_THAT(w, Each(-2.5f));
  inner->mutable_momentum()->set_rate(0.25);
  ASSERT_OK(local->TakeRates(downpour));
  local->Step(gradient, w);  // v = 1.75, times 0.25 and the half that the schedule has come to
  EXPECT_THAT(w, Each(-2.5f - 0.25f * 0.5f * 1.75f));
  local->Restart();  // another kernel, with the rate of now
  std::vector<float> anew(kFloats, 0.0f);
  local->Step(gradient, anew);
  EXPECT_THAT(anew, Each(-0.25f * 0.5f));
  inner->mutable_momentum()->set_rate(0.5);
  ASSERT_OK(local->TakeRates(downpour));
  std::fill(anew.begin(), anew.end(), 0.0f);
  local->Step(gradient, anew);  // the fifth step of all, and the second of its momentum
  EXPECT_THAT(anew, Each(-0.5f * 0.25f * 1.5f));
  inner->mutable_adam()->set_rate(0.25);
  EXPECT_THAT(local->TakeRates(downpour),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("another kind")));
  inner->mutable_momentum()->set_rate(-1);
  EXPECT_FALSE(local->TakeRates(downpour).ok());
}

TEST(LocalUpdaterTest, TheRateOfALocalUpdateChangesToo) {
  auto local = Sgd(1.0);
  const std::vector<float> gradient(kFloats, 1.0f);
  std::vector<float> w(kFloats, 0.0f);
  local->Step(gradient, w);
  Downpour downpour;
  downpour.mutable_local_update()->set_sgd_rate(0.5);
  ASSERT_OK(local->TakeRates(downpour));
  local->Step(gradient, w);
  EXPECT_THAT(w, Each(-1.5f));
}

}  // namespace
}  // namespace monsoon
