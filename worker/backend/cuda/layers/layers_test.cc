// Layers and graphs of them in whole networks, against the reference backend in double.
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/engine_pair.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using testing::Pair;
using testing::TestData;
using testing::TestNetwork;

constexpr double kTolerance = 1e-5;

struct LayerCase {
  std::string name;
  TestNetwork network;
};

void PrintTo(const LayerCase& c, std::ostream* os) { *os << c.name; }

class GraphLayersTest : public ::testing::TestWithParam<LayerCase> {
 protected:
  void SetUp() override {
    if (const std::string why = testing::WhyNoGpu(); !why.empty()) {
      GTEST_SKIP() << "needs a GPU: " << why;
    }
  }
};

// Growing and shrinking; the second of a size is captured and launched.
TEST_P(GraphLayersTest, EqualsTheReference) {
  for (const bool graphs : {true, false}) {
    Pair pair(GetParam().network, EngineOptions{.graphs = graphs});
    for (const uint64_t examples : {3, 5, 5, 5, 4}) {
      SCOPED_TRACE(examples);
      const TestData data(pair.network, examples, examples);
      pair.ExpectSameStep(data.All(), StepKey{1, 2, examples}, kTolerance);
      pair.ExpectSameEvaluation(data.All(), kTolerance);
    }
  }
}

// A step of a batch job: statistics and samples stand still.
TEST_P(GraphLayersTest, EqualsTheReferenceInABatchJob) {
  for (const bool graphs : {true, false}) {
    Pair pair(GetParam().network, EngineOptions{.graphs = graphs});
    const TestData data(pair.network, 5, 9);
    const std::vector<uint32_t> ids = {3, 1, 4, 1, 5};
    const StepKey by_sample{.seed = 1, .samples = ids};
    for (int step = 0; step < 2; ++step) {
      pair.ExpectSameStep(data.All(), by_sample, kTolerance);
      pair.ExpectSameStep(data.All(), StepKey{.seed = 1}, kTolerance);
    }
  }
}

TEST_P(GraphLayersTest, HalfAndTf32ProductsStayNear) {
  const std::pair<Precision, double> kPrecisions[] = {
      {Precision::kTf32, 1e-2}, {Precision::kBfloat16, 6e-2}, {Precision::kFloat16, 1e-2}};
  for (const auto& [precision, tolerance] : kPrecisions) {
    SCOPED_TRACE(static_cast<int>(precision));
    Pair pair(GetParam().network, EngineOptions{.precision = precision});
    const TestData data(pair.network, 5, 4);
    pair.ExpectSameStep(data.All(), {}, tolerance);
    pair.ExpectSameEvaluation(data.All(), tolerance);
    EXPECT_EQ(pair.engine.repeated_steps(), 0u);
  }
}

TestNetwork Image() { return TestNetwork(Extent{.channels = 3, .height = 11, .width = 9,
                                                .is_image = true}); }
TestNetwork Sequence() { return TestNetwork(Extent{.channels = 7, .steps = 5}); }
TestNetwork Vector() { return TestNetwork(Extent{17}); }

// x + f(x), whose x has two takers.
TestNetwork Residual() {
  TestNetwork network = Vector().Dense(13);
  const ValueIndex x = network.last();
  network.Tanh().Dense(13);
  return network.Join(LayerKind::kAdd, {x, network.last()}).Dense(3);
}

// One value thrice in a join, another that the sample is itself, and a product of three.
TestNetwork Joins() {
  TestNetwork network = Vector().Dense(17);
  const ValueIndex x = network.last();
  network.At(0).Dense(17).Sigmoid();
  const ValueIndex y = network.last();
  network.Join(LayerKind::kMultiply, {x, y, 0});
  const ValueIndex product = network.last();
  return network.Join(LayerKind::kAdd, {x, product, x, x}).Gelu().Dense(3);
}

TestNetwork ConcatVectors() {
  TestNetwork network = Vector().Dense(5);
  const ValueIndex x = network.last();
  network.At(0).Dense(3).Tanh();
  const ValueIndex y = network.last();
  return network.Join(LayerKind::kConcat, {y, x, 0, y}).Dense(4);
}

// Channels of images, whose branches take it flattened and as it is.
TestNetwork ConcatImages() {
  TestNetwork network = Image().Conv2d(4, 3, 1, 1);
  const ValueIndex x = network.last();
  network.Tanh().Conv2d(2, 3, 1, 1);
  network.Join(LayerKind::kConcat, {x, network.last()}).GlobalAveragePool();
  const ValueIndex pooled = network.last();
  network.At(x).Flatten();
  return network.Join(LayerKind::kConcat, {network.last(), pooled}).Dense(5);
}

TestNetwork ConcatSequences() {
  TestNetwork network = Sequence().Dense(4);
  const ValueIndex x = network.last();
  network.At(0).Dense(3).Sigmoid();
  return network.Join(LayerKind::kConcat, {x, network.last()}).Dense(5);
}

// A transformer's block, whose embedding is its output's weight too.
TestNetwork Transformer() {
  TestNetwork network = TestNetwork(Extent{6}).Embedding(11, 8).PositionEmbedding();
  const ValueIndex x = network.last();
  network.LayerNorm().SelfAttention(2, true);
  network.Join(LayerKind::kAdd, {x, network.last()});
  const ValueIndex y = network.last();
  network.LayerNorm().Dense(20).Gelu().Dense(8);
  return network.Join(LayerKind::kAdd, {y, network.last()}).LayerNorm(false).DenseTied(1);
}

// No bias right before a batch_norm: its gradient is a sum of zero.
INSTANTIATE_TEST_SUITE_P(
    Layers, GraphLayersTest,
    ::testing::Values(
        LayerCase{"DenseOnSequences", Sequence().Dense(9).Tanh().Dense(4)},
        LayerCase{"Residual", Residual()}, LayerCase{"Joins", Joins()},
        LayerCase{"ConcatVectors", ConcatVectors()}, LayerCase{"ConcatImages", ConcatImages()},
        LayerCase{"ConcatSequences", ConcatSequences()},
        LayerCase{"Gelu", Vector().Dense(9).Gelu().Dense(3)},
        LayerCase{"Rescale", Vector().Rescale(0.5, -1.25).Dense(9).Rescale(-2, 3).Dense(3)},
        LayerCase{"PoolImages", Image().Conv2d(5, 3).GlobalAveragePool().Dense(3)},
        LayerCase{"PoolSequences", Sequence().Dense(6).GlobalAveragePool().Dense(3)},
        LayerCase{"LayerNorm", Vector().Dense(9).LayerNorm().Tanh().Dense(3)},
        LayerCase{"LayerNormOnSequences", Sequence().LayerNorm().Dense(6).LayerNorm(false)},
        LayerCase{"BatchNorm", Vector().Dense(9, false).BatchNorm().Tanh().Dense(3)},
        LayerCase{"BatchNormOnImages",
                  Image()
                      .BatchNorm()
                      .Tanh()
                      .Conv2d(4, 3, 1, 0, false)
                      .BatchNorm(false)
                      .Tanh()
                      .Flatten()
                      .Dense(3)},
        LayerCase{"Embedding", TestNetwork(Extent{13}).Embedding(5, 3).Flatten().Dense(4)},
        LayerCase{"PositionEmbedding", Sequence().Dense(4).PositionEmbedding().Dense(3)},
        LayerCase{"Lstm", Sequence().Lstm(6, false).Dense(3)},
        LayerCase{"LstmOfOneStep", TestNetwork(Extent{7}).Lstm(3, false)},
        LayerCase{"LstmSequences", Sequence().Dense(4).Lstm(5, true).Dense(3)},
        LayerCase{"LstmBothWays", Sequence().Dense(4).Lstm(3, true, true).Lstm(5, false, true)},
        LayerCase{"Attention", Sequence().Dense(6).SelfAttention(3, false).Dense(4)},
        LayerCase{"AttentionCausal", Sequence().Dense(6).SelfAttention(2, true, false).Dense(4)},
        LayerCase{"Transformer", Transformer()},
        LayerCase{"Local", Image().LocallyConnected2d(4, 3).Tanh().Flatten().Dense(3)},
        LayerCase{"LocalStride", Image()
                                     .LocallyConnected2d(5, 3, 2, 1)
                                     .Tanh()
                                     .LocallyConnected2d(2, 2, 2, 0, false)
                                     .Flatten()},
        LayerCase{"Contrast", Image().Conv2d(2, 3).LocalContrastNorm(5).Flatten().Dense(3)},
        LayerCase{"ContrastSubtractive",
                  Image().Conv2d(2, 3).LocalContrastNorm(3, true, false).Flatten().Dense(3)},
        LayerCase{"ContrastDivisive",
                  Image().Conv2d(2, 3).LocalContrastNorm(9, false, true).Flatten().Dense(3)},
        LayerCase{"Augment", Image().Augment(2, true).Conv2d(2, 3).Flatten().Dense(3)},
        LayerCase{"AugmentCrop",
                  Image().Conv2d(2, 1).Augment(1, true, 6).Conv2d(2, 3).Flatten().Dense(3)}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace monsoon::cuda
