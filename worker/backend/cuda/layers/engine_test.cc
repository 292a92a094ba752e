// Whole networks against the reference backend in double. Built twice: for the
// GPU, and for the stand-in on the host.
#include "worker/backend/cuda/layers/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/engine_pair.h"
#include "worker/backend/cuda/layers/test_network.h"

#ifdef MONSOON_HOST_STAND_IN
#include "worker/backend/cuda/host/host_runtime.h"
#endif

namespace monsoon::cuda {
namespace {

using testing::kFloat32Tolerance;
using testing::Oracle;
using testing::Pair;
using testing::Precise;
using testing::TestData;
using testing::TestNetwork;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

EngineOptions OnStreams() { return EngineOptions{.graphs = false}; }

struct Case {
  std::string name;
  TestNetwork network;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class EngineLayersTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = testing::WhyNoGpu(); !why.empty()) {
      GTEST_SKIP() << "needs a GPU: " << why;
    }
  }
};

TEST_P(EngineLayersTest, EqualsTheReferenceForAnyBatch) {
  for (const EngineOptions& options : {EngineOptions{}, OnStreams()}) {
    Pair pair(GetParam().network, options);
    // Growing and shrinking; the second of a size is captured and launched.
    for (const uint64_t examples : {1, 7, 7, 7, 33, 2}) {
      SCOPED_TRACE(examples);
      const TestData data(pair.network, examples, examples);
      pair.ExpectSameStep(data.All(), StepKey{1, 2, examples}, kFloat32Tolerance);
      pair.ExpectSameEvaluation(data.All(), 1e-5);
    }
  }
}

TestNetwork Image() { return TestNetwork(Extent{3, 11, 9}); }
TestNetwork AfterConv() { return Image().Conv2d(7, 3); }

INSTANTIATE_TEST_SUITE_P(
    Layers, EngineLayersTest,
    ::testing::Values(
        Case{"Dense1", TestNetwork(Extent{1}).Dense(2)},
        Case{"DenseOdd", TestNetwork(Extent{17}).Dense(13).Relu().Dense(3)},
        Case{"DenseNoBias", TestNetwork(Extent{33}).Dense(31, false).Tanh().Dense(3, false)},
        Case{"DenseSigmoid", TestNetwork(Extent{16}).Dense(64).Sigmoid().Dense(10)},
        Case{"LeadingActivation", TestNetwork(Extent{16}).Tanh().Dense(4)},
        Case{"LeadingDropout", TestNetwork(Extent{40}).Dropout(0.2).Dense(4)},
        Case{"LeadingPool", Image().MaxPool(2).Conv2d(4, 2).Flatten().Dense(5)},
        Case{"ConvLast", TestNetwork(Extent{1, 4, 4}).Conv2d(3, 4).Flatten()},
        Case{"ActivationLast", TestNetwork(Extent{9}).Dense(6).Sigmoid()},
        Case{"NoParameters", TestNetwork(Extent{9}).Sigmoid()},
        Case{"Conv", AfterConv().Flatten().Dense(5)},
        Case{"ConvNoBias", Image().Conv2d(17, 2, 1, 0, false).Flatten().Dense(5)},
        Case{"ConvStride", AfterConv().Conv2d(5, 3, 2).Flatten().Dense(5)},
        Case{"ConvPadding", AfterConv().Conv2d(18, 3, 2, 1).Flatten().Dense(5)},
        Case{"ConvTanhConv", AfterConv().Tanh().Conv2d(5, 2).Flatten().Dense(5)},
        Case{"AveragePool", AfterConv().Relu().AveragePool(2).Flatten().Dense(5)},
        Case{"AveragePoolOverlap", AfterConv().AveragePool(3, 1).Flatten().Dense(5)},
        Case{"MaxPool", AfterConv().MaxPool(2).Relu().Flatten().Dense(5)},
        Case{"MaxPoolOverlap", AfterConv().MaxPool(3, 2).Flatten().Dense(5)},
        Case{"DropoutAfterConv", AfterConv().Relu().Dropout(0.4).Conv2d(4, 2).Flatten().Dense(5)},
        Case{"DropoutAfterDense", TestNetwork(Extent{30}).Dense(20).Relu().Dropout(0.5).Dense(5)},
        Case{"FlattenFirst", Image().Flatten().Dense(6).Relu().Dense(5)}),
    [](const auto& test) { return test.param.name; });

class EngineTest : public testing::GpuTest {};

TEST_F(EngineTest, LeNetEqualsTheReference) {
  for (const EngineOptions& options : {EngineOptions{}, OnStreams()}) {
    Pair pair(testing::LeNet(), options);
    const TestData data(pair.network, 9, 3);
    pair.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
    pair.ExpectSameEvaluation(data.All(), 1e-5);
  }
}

TEST_F(EngineTest, MlpEqualsTheReferenceAtAFullAndATailBatch) {
  Pair pair(testing::Mlp());
  for (const uint64_t examples : {64, 19, 64, 1}) {
    const TestData data(pair.network, examples, examples);
    pair.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
  }
}

TEST_F(EngineTest, TenTrainingStepsFollowTheReference) {
  const TestNetwork network = TestNetwork(Extent{1, 12, 12})
                                  .Conv2d(6, 3)
                                  .Relu()
                                  .AveragePool(2)
                                  .Flatten()
                                  .Dense(20)
                                  .Relu()
                                  .Dropout(0.2)
                                  .Dense(4);
  for (const EngineOptions& options : {EngineOptions{}, OnStreams()}) {
    Pair pair(network, options);
    std::vector<float> ours = network.Parameters(1);
    std::vector<double> theirs = Precise(ours);
    const TestData data(network, 16, 5);
    double first_loss = 0;
    for (uint64_t step = 0; step < 10; ++step) {
      const StepKey key{3, 0, step};
      pair.Set(ours);
      EngineResult got;
      const std::vector<float> gradient = pair.Gradient(data.All(), key, &got);
      const Oracle::Result want = pair.oracle.Run(theirs, data.All(), &key);
      EXPECT_NEAR(got.loss_sum, want.loss_sum, 16e-4) << "step " << step;
      for (size_t i = 0; i < ours.size(); ++i) {
        ours[i] -= 0.3f * gradient[i];
        theirs[i] -= 0.3 * want.gradient[i];
      }
      first_loss = step == 0 ? got.loss_sum : first_loss;
      EXPECT_TRUE(step < 9 || got.loss_sum < 0.97 * first_loss);
    }
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], theirs[i], 1e-4) << i;
    }
  }
}

// As a batch job's contribution does: the sum over its batches of mean gradient
// times samples is that of the whole, with masks by sample.
TEST_F(EngineTest, AChunkSumsToTheWhole) {
  const TestNetwork network =
      TestNetwork(Extent{2, 7, 6}).Conv2d(5, 2).Relu().Dropout(0.4).Flatten().Dropout(0.2).Dense(4);
  Pair pair(network);
  constexpr uint64_t kSamples = 23;
  constexpr uint64_t kBatch = 8;
  const TestData data(network, kSamples, 3);
  std::vector<uint32_t> ids(kSamples);
  for (uint32_t n = 0; n < kSamples; ++n) {
    ids[n] = 40 + 7 * n;
  }
  std::vector<double> sum(network.parameter_floats());
  double loss = 0;
  for (uint64_t first = 0; first < kSamples; first += kBatch) {
    const uint64_t count = std::min(kBatch, kSamples - first);
    // By any worker, in any step.
    const StepKey key{1, 5, first, std::span(ids).subspan(first, count)};
    EngineResult result;
    const std::vector<float> gradient = pair.Gradient(data.Part(first, count), key, &result);
    loss += result.loss_sum;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += static_cast<double>(gradient[i]) * static_cast<double>(count);
    }
  }
  const StepKey all{1, 2, 3, ids};
  const Oracle::Result want = pair.oracle.Run(Precise(pair.parameters), data.All(), &all);
  EXPECT_NEAR(loss, want.loss_sum, 1e-5 * (kSamples + want.loss_sum));
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], want.gradient[i] * kSamples, 1e-3) << i;
  }
  pair.ExpectSameStep(data.All(), all, kFloat32Tolerance);
  pair.ExpectSameEvaluation(data.All(), 1e-5);
}

TEST_F(EngineTest, GraphsAndStreamsGiveTheSameBits) {
  const TestNetwork network = testing::LeNet();
  const TestData data(network, 5, 3);
  std::vector<float> first;
  for (const EngineOptions& options : {EngineOptions{}, OnStreams(), EngineOptions{}}) {
    Pair pair(network, options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      EngineResult result;
      const std::vector<float> gradient = pair.Gradient(data.All(), {1, 0, 5}, &result);
      first = first.empty() ? gradient : first;
      EXPECT_EQ(std::memcmp(first.data(), gradient.data(), first.size() * sizeof(float)), 0);
    }
  }
}

TEST_F(EngineTest, NewParametersAreSeenByAllBatchSizes) {
  for (const EngineOptions& options : {EngineOptions{}, OnStreams()}) {
    Pair pair(testing::Mlp(), options);
    const TestData full(pair.network, 8, 1);
    const TestData tail(pair.network, 3, 2);
    for (const uint64_t seed : {1, 2, 1}) {
      pair.Set(pair.network.Parameters(seed + 10));
      pair.Set(pair.network.Parameters(seed));  // One that no step sees.
      pair.ExpectSameStep(full.All(), {}, kFloat32Tolerance);
      pair.ExpectSameStep(tail.All(), {}, kFloat32Tolerance);
    }
  }
}

TEST_F(EngineTest, ManyBatchSizesAreServed) {
  Pair pair(testing::Mlp());
  for (uint64_t examples = 1; examples <= 20; ++examples) {
    pair.ExpectSameStep(TestData(pair.network, examples, 1).All(), {}, kFloat32Tolerance);
  }
}

// The columns of two samples are more than a group may have.
TEST_F(EngineTest, AConvolutionInSeveralGroupsIsOneConvolution) {
  Pair pair(TestNetwork(Extent{1, 101, 101})
                .Conv2d(1, 1)
                .Conv2d(1, 41)
                .AveragePool(30)
                .Flatten()
                .Dense(2));
  pair.ExpectSameStep(TestData(pair.network, 3, 4).All(), {}, 1e-4);
}

TEST_F(EngineTest, HalfAndTf32ProductsStayNear) {
  // Of a tensor's largest gradient. The mantissa has 11, 8 and 11 bits, and the
  // errors of some layers add up.
  const std::pair<Precision, double> kPrecisions[] = {
      {Precision::kTf32, 1e-2}, {Precision::kBfloat16, 6e-2}, {Precision::kFloat16, 1e-2}};
  for (const auto& [precision, tolerance] : kPrecisions) {
    for (const bool graphs : {false, true}) {
      SCOPED_TRACE(static_cast<int>(precision));
      // Sigmoid: ReLU's bend would turn a rounding into another path.
      Pair pair(TestNetwork(Extent{2, 12, 12})
                    .Conv2d(8, 3)
                    .Sigmoid()
                    .AveragePool(2)
                    .Conv2d(6, 3, 1, 1)
                    .Tanh()
                    .Flatten()
                    .Dense(40)
                    .Tanh()
                    .Dense(10),
                EngineOptions{.precision = precision, .graphs = graphs});
      const TestData data(pair.network, 32, 4);
      pair.ExpectSameStep(data.All(), {}, tolerance);
      pair.ExpectSameEvaluation(data.All(), tolerance);
      EXPECT_EQ(pair.engine.repeated_steps(), 0u);
    }
  }
}

TEST_F(EngineTest, AGradientTooLargeForTheLossScaleIsComputedWithASmallerOne) {
  for (const bool graphs : {false, true}) {
    Pair pair(TestNetwork(Extent{20}).Dense(30).Tanh().Dense(4),
              EngineOptions{.precision = Precision::kFloat16, .graphs = graphs});
    // A wrong sample's difference of 1/4, times 2^14, times weights of some 20
    // leaves float16 in the first layer.
    std::vector<float> parameters = pair.network.Parameters(1, 200.0);
    const TensorSlot& first = pair.network.layers()[0].weight;
    for (uint64_t i = first.offset; i < first.offset + first.size; ++i) {
      parameters[i] *= 0.01f;
    }
    pair.Set(parameters);
    const TestData data(pair.network, 4, 4);
    pair.ExpectSameStep(data.All(), {}, 2e-2);
    EXPECT_GT(pair.engine.repeated_steps(), 0u);
    // Nothing is left of it in the next step.
    EngineResult result;
    const std::vector<float> again = pair.Gradient(data.All(), {}, &result);
    EXPECT_EQ(again, pair.Gradient(data.All(), {}, &result));
  }
}

// What the device reads and writes by itself, the host does not copy; the bits are the
// same, and one way may follow the other.
TEST_F(EngineTest, PageLockedMemoryIsNotCopiedByTheHost) {
  const TestNetwork network = testing::LeNet();
  const uint64_t floats = network.parameter_floats();
  uint64_t in_tensors = 0;
  for (const LayerPlan& plan : network.layers()) {
    for (const TensorSlot& slot : plan.tensors) {
      in_tensors += slot.size;
    }
  }
  const TestData data(network, 8, 3);
  const std::vector<float> first = network.Parameters(1), second = network.Parameters(2);
  for (const EngineOptions& options : {EngineOptions{}, OnStreams()}) {
    Engine engine(network.model(), options);
    testing::LockedFloats parameters(floats), gradient(floats);
    ASSERT_TRUE(parameters.held() && gradient.held());
    const auto step = [&](const std::vector<float>& values, bool locked) {
      std::vector<float> paged(floats, kNan);
      std::copy(values.begin(), values.end(), parameters.span().begin());
      std::fill(gradient.span().begin(), gradient.span().end(), kNan);
      const uint64_t before = engine.host_copied_bytes();
      engine.SetParameters(locked ? std::span<const float>(parameters.span()) : values);
      EngineResult result;
      EXPECT_TRUE(engine.Train(data.All(), {}, locked ? gradient.span() : paged, &result))
          << engine.errors().message();
      EXPECT_EQ(engine.host_copied_bytes() - before, locked ? 0 : 2 * in_tensors * sizeof(float));
      return locked ? std::vector<float>(gradient.span().begin(), gradient.span().end()) : paged;
    };
    const std::vector<float> want = step(first, false), other = step(second, false);
    EXPECT_NE(want, other);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(step(first, true), want);
      EXPECT_EQ(step(second, true), other);
      EXPECT_EQ(step(first, false), want);
    }
  }
}

#ifdef MONSOON_HOST_STAND_IN
// The step is computed all the same, and the reason is kept.
TEST_F(EngineTest, AStepThatCannotBeCapturedRunsOnStreams) {
  Pair pair(testing::Mlp());
  const TestData data(pair.network, 8, 1);
  pair.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
  FailNextCaptureOnHost();
  pair.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
  EXPECT_NE(pair.engine.graph_failure().find("error 901"), std::string::npos)
      << pair.engine.graph_failure();
  pair.Set(pair.network.Parameters(8));
  pair.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
  pair.ExpectSameEvaluation(data.All(), kFloat32Tolerance);
}
#endif

TEST_F(EngineTest, NonFiniteParametersGiveANonFiniteLoss) {
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    Pair pair(testing::Mlp(), EngineOptions{.precision = precision});
    std::vector<float> parameters = pair.network.Parameters(1);
    parameters[5] = kNan;
    pair.Set(parameters);
    EngineResult result;
    pair.Gradient(TestData(pair.network, 4, 1).All(), {}, &result);
    EXPECT_FALSE(std::isfinite(result.loss_sum));
  }
}

TEST_F(EngineTest, TheMemoryLimitIsCheckedBeforeAnythingIsAllocated) {
  const TestNetwork network = testing::Mlp();
  Engine small(network.model(),
               EngineOptions{.memory_limit_bytes = 1 << 20});
  EXPECT_EQ(small.errors().kind(), ErrorLog::Kind::kOutOfMemory);
  EXPECT_NE(small.errors().message().find("the limit is 1 MiB"), std::string::npos)
      << small.errors().message();

  // Room for a batch of 8 and not for one of 4096, after which 8 still works.
  Pair pair(network, EngineOptions{.memory_limit_bytes = 40 << 20});
  const TestData data(network, 4096, 1);
  pair.ExpectSameStep(data.Part(0, 8), {}, kFloat32Tolerance);
  EngineResult result;
  std::vector<float> gradient(network.parameter_floats());
  EXPECT_FALSE(pair.engine.Train(data.All(), {}, gradient, &result));
  EXPECT_EQ(pair.engine.errors().kind(), ErrorLog::Kind::kOutOfMemory);
  EXPECT_NE(pair.engine.errors().message().find("a batch of 4096 needs"), std::string::npos)
      << pair.engine.errors().message();
  pair.Set(network.Parameters(8));  // not lost
  pair.ExpectSameStep(data.Part(0, 8), {}, kFloat32Tolerance);
}

TEST_F(EngineTest, TwoEnginesShareADevice) {
  Pair one(testing::Mlp());
  Pair two(testing::Mlp(), OnStreams());
  two.Set(two.network.Parameters(99));
  const TestData data(one.network, 8, 1);
  for (int step = 0; step < 3; ++step) {
    one.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
    two.ExpectSameStep(data.All(), {}, kFloat32Tolerance);
  }
}

TEST_F(EngineTest, ADeviceThatIsNotThereIsAnError) {
  const TestNetwork network = testing::Mlp();
  Engine engine(network.model(),
                EngineOptions{.device_index = 1'000'000});
  EXPECT_EQ(engine.errors().kind(), ErrorLog::Kind::kNotAvailable) << engine.errors().message();
}

TEST_F(EngineTest, TheFingerprintNamesWhatBitsDependOn) {
  Pair pair(testing::Mlp(), EngineOptions{.precision = Precision::kTf32});
  EXPECT_NE(pair.engine.Fingerprint().find("TF32"), std::string::npos);
  EXPECT_EQ(pair.engine.Fingerprint().rfind("cuda ", 0), 0u);
}

}  // namespace
}  // namespace monsoon::cuda
