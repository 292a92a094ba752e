// What stays on a device between steps, beside the same done on the host. Built twice:
// for the GPU, and for the stand-in on the host.
#include "worker/backend/cuda/layers/engine_vectors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/optimizer/optimizer_rules.h"
#include "common/optimizer/optimizer_step.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using testing::LockedFloats;
using testing::TestData;
using testing::TestNetwork;
using Memory = std::unique_ptr<EngineVectors::Memory>;

// With and without graphs; a larger model, whose steps are graphs when nothing crosses.
struct Form {
  const char* name;
  EngineOptions options;
};

class EngineVectorsTest : public testing::GpuTest, public ::testing::WithParamInterface<Form> {};

TestNetwork Net() {
  return TestNetwork({1, 6, 6}).Conv2d(3, 3).Relu().Flatten().Dense(7).Tanh().Dense(4);
}

// An engine with its vectors, and parameters in page-locked memory.
struct Device {
  explicit Device(const EngineOptions& options, const TestNetwork& network = Net())
      : network(network),
        engine(network.model(), options),
        vectors(&engine),
        parameters(network.parameter_floats()) {
    Set(network.Parameters(7));
  }

  uint64_t floats() const { return network.parameter_floats(); }
  void Set(const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), parameters.span().begin());
    engine.SetParameters(parameters.span());
  }
  Memory New(float fill = 0.0f, uint64_t count = 1) {
    std::string problem;
    Memory memory = vectors.Allocate(count * floats(), fill, &problem);
    EXPECT_NE(memory, nullptr) << problem;
    return memory;
  }
  void Step(const Samples& samples) {
    EngineResult result;
    EXPECT_TRUE(engine.TrainOnDevice(samples, {}, &result)) << engine.errors().message();
  }
  std::vector<float> Gradient(const Samples& samples) {
    LockedFloats gradient(floats());
    EngineResult result;
    EXPECT_TRUE(engine.Train(samples, {}, gradient.span(), &result)) << engine.errors().message();
    return {gradient.span().begin(), gradient.span().end()};
  }
  std::vector<float> Get(const float* from) {
    LockedFloats to(floats());
    const std::unique_ptr<Event> done = vectors.Read(from, to.span().data(), floats());
    EXPECT_NE(done, nullptr) << engine.errors().message();
    EXPECT_EQ(done->Await(), "");
    return {to.span().begin(), to.span().end()};
  }

  TestNetwork network;
  Engine engine;
  EngineVectors vectors;
  LockedFloats parameters;
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * (1.0f + std::abs(want[i]))) << "at " << i;
  }
}

TEST_P(EngineVectorsTest, SumsGradientsWhileNothingCrosses) {
  Device device(GetParam().options);
  const TestData data(device.network, 12, 3);
  std::vector<float> want(device.floats(), 0.0f);
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> gradient = device.Gradient(data.Part(3 * i, 3));
    for (size_t j = 0; j < want.size(); ++j) want[j] += gradient[j];
  }
  const Memory sum = device.New();
  const uint64_t crossed = device.engine.crossed_bytes();
  // Twice, so that graphs are used too, and the sum is read while steps go on.
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 4; ++i) {
      device.Step(data.Part(3 * i, 3));
      if (i == 0) {
        device.vectors.Copy(device.vectors.gradient(), sum->data(), device.floats());
      } else {
        device.vectors.Add(device.vectors.gradient(), sum->data(), device.floats());
      }
    }
    LockedFloats to(device.floats());
    const auto done = device.vectors.Read(sum->data(), to.span().data(), device.floats());
    ASSERT_NE(done, nullptr);
    device.Step(data.Part(0, 3));
    device.vectors.Fill(sum->data(), device.floats(), -1.0f);  // after the copy
    EXPECT_EQ(done->Await(), "");
    EXPECT_EQ(std::vector<float>(to.span().begin(), to.span().end()), want);
  }
  EXPECT_EQ(device.engine.crossed_bytes() - crossed, 2 * device.floats() * sizeof(float));
  EXPECT_EQ(device.engine.host_copied_bytes(), 0u);
}

TEST_P(EngineVectorsTest, ReadsIntoMemoryThatIsNotLocked) {
  Device device(GetParam().options);
  const Memory five = device.New(5.0f);
  std::vector<float> to(device.floats());
  const auto done = device.vectors.Read(five->data(), to.data(), to.size());
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(to, std::vector<float>(device.floats(), 5.0f));
}

TEST_P(EngineVectorsTest, AddsToParametersAsTheyArrive) {
  Device device(GetParam().options);
  const TestData data(device.network, 3, 3);
  const Memory tenth = device.New(0.1f);
  const Memory fifth = device.New(0.2f);
  for (int round = 0; round < 3; ++round) {
    const std::vector<float> values = device.network.Parameters(20 + round);
    device.Set(values);
    const uint64_t half = device.floats() / 2;
    // A part that ends in the middle of a tensor, and all.
    device.vectors.Add(tenth->data(), device.vectors.parameters(), half);
    device.vectors.Add(fifth->data(), device.vectors.parameters(), device.floats());
    const std::vector<float> got = device.Gradient(data.All());
    std::vector<float> moved = values;
    for (size_t i = 0; i < moved.size(); ++i) {
      moved[i] = (i < half ? moved[i] + 0.1f : moved[i]) + 0.2f;
    }
    device.Set(moved);
    EXPECT_EQ(got, device.Gradient(data.All())) << "round " << round;
  }
}

TEST_P(EngineVectorsTest, NothingReadsTheHostsValuesOnceItHasReturned) {
  Device device(GetParam().options);
  const TestData data(device.network, 3, 3);
  const Memory vector = device.New();
  const std::vector<float> values = device.network.Parameters(3);
  device.Set(values);
  const std::vector<float> want = device.Gradient(data.All());
  device.Set(values);
  device.vectors.Fill(vector->data(), device.floats(), 1.0f);
  std::ranges::fill(device.parameters.span(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(device.Gradient(data.All()), want);
}

// The optimizers' formulas anew: how far a parameter goes back, and its state after that.
float Distance(const OptimizerStep& step, float w, float g, float* first, float* second) {
  switch (step.rule) {
    case OptimizerRule::kSgd:
      return step.rate * g;
    case OptimizerRule::kMomentum:
      *first = step.momentum * *first + g;
      return step.rate * *first;
    case OptimizerRule::kAdagrad:
      *first += g * g;
      return step.rate * g / (std::sqrt(*first) + step.epsilon);
    case OptimizerRule::kAdam:
      *first = step.beta1 * *first + step.rest1 * g;
      *second = step.beta2 * *second + step.rest2 * g * g;
      return step.decay * w +
             step.rate * *first / (step.root_scale * std::sqrt(*second) + step.epsilon);
    case OptimizerRule::kRmsProp:
      *first = step.beta2 * *first + step.rest2 * g * g;
      return step.rate * g / (std::sqrt(*first) + step.epsilon);
    case OptimizerRule::kRmsPropMomentum:
      *first = step.beta2 * *first + step.rest2 * g * g;
      *second = step.momentum * *second + g / (std::sqrt(*first) + step.epsilon);
      return step.rate * *second;
    case OptimizerRule::kNesterov:
      *first = step.momentum * *first + g;
      return step.rate * (g + step.ahead * *first);
    case OptimizerRule::kDelayedNesterov:
      *second += g;
      return step.rate * (step.part * g + step.ahead * *first);
    case OptimizerRule::kClosingNesterov:
      *first = step.momentum * *first + step.part * (*second + g);
      *second = 0.0f;
      return step.rate * (step.part * g + step.ahead * *first);
    case OptimizerRule::kLion: {
      const float c = step.beta1 * *first + step.rest1 * g;
      *first = step.beta2 * *first + step.rest2 * g;
      return step.decay * w + step.rate * static_cast<float>((c > 0.0f) - (c < 0.0f));
    }
  }
  return std::nanf("");
}

TEST_P(EngineVectorsTest, UpdatesParametersLikeTheOptimizers) {
  for (int rule = 0; rule < kOptimizerRules; ++rule) {
    SCOPED_TRACE(rule);
    Device device(GetParam().options);
    const TestData data(device.network, 3, 3);
    const OptimizerStep step{.rule = static_cast<OptimizerRule>(rule),
                             .clip = 0.2f,
                             .weight_decay = 0.125f,
                             .rate = 0.05f,
                             .momentum = 0.5f,
                             .epsilon = 0.01f,
                             .decay = 0.01f,
                             .beta1 = 0.75f,
                             .rest1 = 0.25f,
                             .beta2 = 0.875f,
                             .rest2 = 0.125f,
                             .root_scale = 1.5f,
                             .part = 0.5f,
                             .ahead = 0.25f};
    const int slots = RuleSlots(step.rule);
    // What is no slot of the optimizer's stays.
    const Memory state = device.New(0.25f, 2);
    const Memory moved = device.New(std::nanf(""));
    std::vector<float> w = device.network.Parameters(7);
    std::vector<float> first(w.size(), 0.25f);
    std::vector<float> second(w.size(), 0.25f);
    std::vector<float> m(w.size(), 0.0f);
    for (int i = 0; i < 3; ++i) {
      device.Step(data.All());
      const std::vector<float> g = device.Get(device.vectors.gradient());
      device.vectors.Update(step, state->data(), slots, moved->data(), i == 0);
      for (size_t j = 0; j < w.size(); ++j) {
        const float gj = std::max(-0.2f, std::min(0.2f, g[j])) + 0.125f * w[j];
        const float by = Distance(step, w[j], gj, &first[j], &second[j]);
        w[j] -= by;
        m[j] -= by;
      }
      ExpectNear(device.Get(device.vectors.parameters()), w, 1e-5f);
      ExpectNear(device.Get(moved->data()), m, 1e-5f);
      ExpectNear(device.Get(state->data()), first, 1e-5f);
      ExpectNear(device.Get(state->data() + device.floats()), second, 1e-5f);
    }
    // The next step computes with what the update left.
    const std::vector<float> now = device.Get(device.vectors.parameters());
    const std::vector<float> after = device.Gradient(data.All());
    device.Set(now);
    EXPECT_EQ(after, device.Gradient(data.All()));
  }
}

TEST_P(EngineVectorsTest, ParametersThatArriveDoNotOvertakeAnUpdate) {
  Device device(GetParam().options);
  const TestData data(device.network, 3, 3);
  const Memory moved = device.New();
  device.Step(data.All());
  device.vectors.Update({.rate = 100.0f}, nullptr, 0, moved->data(), true);
  const std::vector<float> values = device.network.Parameters(8);
  device.Set(values);
  const std::vector<float> got = device.Gradient(data.All());
  Device other(GetParam().options);
  other.Set(values);
  EXPECT_EQ(got, other.Gradient(data.All()));
}

TEST_P(EngineVectorsTest, ParametersComeBackAfterTheyWereLent) {
  Device device(GetParam().options);
  const TestData data(device.network, 3, 3);
  const Memory kept = device.New();
  const Memory moved = device.New();
  device.Step(data.All());
  device.vectors.Update({.rate = 0.5f}, nullptr, 0, moved->data(), true);
  const std::vector<float> before = device.Gradient(data.All());
  device.vectors.Copy(device.vectors.parameters(), kept->data(), device.floats());
  device.Set(device.network.Parameters(9));
  EngineResult result;
  ASSERT_TRUE(device.engine.Evaluate(data.All(), &result));
  device.vectors.Copy(kept->data(), device.vectors.parameters(), device.floats());
  EXPECT_EQ(device.Gradient(data.All()), before);
}

// On two GPUs where there are two, else on one.
TEST_P(EngineVectorsTest, DevicesSumTheirGradientsAndShareParameters) {
  Device first(GetParam().options);
  EngineOptions second_options = GetParam().options;
  ErrorLog errors;
  second_options.device_index = SelectDevice(1, errors) ? 1 : 0;
  Device second(second_options);
  ASSERT_TRUE(second.engine.errors().ok()) << second.engine.errors().message();
  std::string problem;
  ASSERT_TRUE(first.vectors.PrepareFor(second.vectors, &problem)) << problem;
  const TestData data(first.network, 6, 3);
  const Memory moved = first.New();
  for (int round = 0; round < 3; ++round) {
    first.Step(data.Part(0, 3));
    second.Step(data.Part(3, 3));
    std::vector<float> want = first.Get(first.vectors.gradient());
    const std::vector<float> theirs = second.Get(second.vectors.gradient());
    for (size_t i = 0; i < want.size(); ++i) want[i] += theirs[i];
    first.vectors.AddToGradient(second.vectors.gradient(), second.vectors);
    second.Step(data.Part(1, 4));  // writes over what is still to be read
    first.vectors.Update({.rate = 0.1f}, nullptr, 0, moved->data(), round == 0);
    second.vectors.TakeParameters(first.vectors);
    EXPECT_EQ(first.Get(first.vectors.gradient()), want);
    EXPECT_EQ(first.Get(first.vectors.parameters()), second.Get(second.vectors.parameters()));
  }
  // What was on its way from the host is the other's by then.
  second.Set(second.network.Parameters(11));
  second.vectors.TakeParameters(first.vectors);
  EXPECT_EQ(first.Gradient(data.All()), second.Gradient(data.All()));
}

TEST_P(EngineVectorsTest, SumsInDoubleAndRoundsOnce) {
  Device device(GetParam().options);
  const TestData data(device.network, 9, 3);
  std::string problem;
  const Memory sum = device.vectors.Allocate(2 * device.floats(), 0.0f, &problem);
  const Memory rounded = device.New();
  std::vector<double> want(device.floats());
  for (int i = 0; i < 3; ++i) {
    device.Step(data.Part(3 * i, 3));
    const double weight = i == 1 ? 7.0 : 1e6 + i;
    device.vectors.AddToSum(weight, device.vectors.gradient(), device.vectors,
                            reinterpret_cast<double*>(sum->data()), i == 0);
    const std::vector<float> gradient = device.Get(device.vectors.gradient());
    for (size_t j = 0; j < want.size(); ++j) {
      want[j] = (i == 0 ? 0.0 : want[j]) + weight * gradient[j];
    }
  }
  device.vectors.Round(reinterpret_cast<double*>(sum->data()), rounded->data());
  EXPECT_EQ(device.Get(rounded->data()), std::vector<float>(want.begin(), want.end()));
}

TEST_P(EngineVectorsTest, EncodesHalvesWithFeedback) {
  for (const HalfType type : {HalfType::kBfloat16, HalfType::kFloat16}) {
    Device device(GetParam().options);
    const TestData data(device.network, 3, 3);
    const Memory residual = device.New();
    const Memory halves = device.New();
    const Memory huge = device.New(3.4e38f);
    std::vector<float> rest(device.floats(), 0.0f);
    device.Step(data.All());
    const std::vector<float> gradient = device.Get(device.vectors.gradient());
    for (int i = 0; i < 3; ++i) {
      device.vectors.Encode(type, device.vectors.gradient(), residual->data(),
                            reinterpret_cast<uint16_t*>(halves->data()));
      const std::vector<float> got = device.Get(halves->data());
      const uint16_t* const half = reinterpret_cast<const uint16_t*>(got.data());
      for (size_t j = 0; j < rest.size(); ++j) {
        const float value = gradient[j] + rest[j];
        ASSERT_EQ(half[j], ToHalf(type, value)) << j;
        rest[j] = value - FromHalf(type, half[j]);
      }
      EXPECT_EQ(device.Get(residual->data()), rest);
    }
    // A finite value stays finite.
    device.vectors.Fill(residual->data(), device.floats(), 0.0f);
    device.vectors.Encode(type, huge->data(), residual->data(),
                          reinterpret_cast<uint16_t*>(halves->data()));
    const std::vector<float> got = device.Get(halves->data());
    EXPECT_EQ(*reinterpret_cast<const uint16_t*>(got.data()),
              type == HalfType::kBfloat16 ? 0x7F7F : 0x7BFF);
  }
}

TEST_P(EngineVectorsTest, TellsWhenThereIsNoRoom) {
  EngineOptions options = GetParam().options;
  options.memory_limit_bytes = uint64_t{64} << 20;
  Device device(options);
  std::string problem;
  EXPECT_EQ(device.vectors.Allocate(uint64_t{16} << 20, 0.0f, &problem), nullptr);
  EXPECT_NE(problem.find("the limit is 64 MiB"), std::string::npos) << problem;
  const TestData data(device.network, 3, 3);
  device.Step(data.All());  // all else goes on
}

INSTANTIATE_TEST_SUITE_P(
    All, EngineVectorsTest,
    ::testing::Values(Form{"Graphs", {}}, Form{"Streams", {.graphs = false}},
                      Form{"GraphsWhereNothingCrosses", {.graph_parameters = 0}},
                      Form{"Bfloat16", {.precision = Precision::kBfloat16}},
                      Form{"Bfloat16OnStreams",
                           {.precision = Precision::kBfloat16, .graphs = false}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace monsoon::cuda
