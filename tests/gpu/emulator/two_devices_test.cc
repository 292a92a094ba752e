// Engines on two devices of one process, by turns in one thread.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using testing::TestData;
using testing::TestNetwork;

class TwoDevicesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Make(uint32_t device) {
    EngineOptions options;
    options.device_index = device;
    auto engine = std::make_unique<Engine>(network_.model(), options);
    engine->SetParameters(parameters_);
    return engine;
  }

  std::vector<float> Gradient(Engine& engine) {
    std::vector<float> gradient(network_.parameter_floats());
    EngineResult result;
    EXPECT_TRUE(engine.Train(data_.All(), {}, gradient, &result)) << engine.errors().message();
    return gradient;
  }

  const TestNetwork network_ = testing::Mlp();
  const std::vector<float> parameters_ = network_.Parameters(1);
  const TestData data_{network_, 4, 1};
};

TEST_F(TwoDevicesTest, GiveTheSameBitsByTurns) {
  const auto first = Make(0);
  const auto second = Make(1);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(Gradient(*first), Gradient(*second)) << step;
  }
}

TEST_F(TwoDevicesTest, GoInAnyOrder) {
  auto first = Make(0);
  auto second = Make(1);
  const std::vector<float> want = Gradient(*second);
  first = nullptr;
  EXPECT_EQ(Gradient(*second), want);
  first = Make(0);
  second = nullptr;
  EXPECT_EQ(Gradient(*first), want);
}

// With MONSOON_EMULATOR_CAPABILITY=70, for which nothing is compiled.
class NoCodeTest : public TwoDevicesTest {};

TEST_F(NoCodeTest, IsAnErrorAndAllIsGivenBackToItsDevice) {
  const auto first = Make(0);
  const auto second = Make(1);
  for (Engine* const engine : {first.get(), second.get()}) {
    std::vector<float> gradient(network_.parameter_floats());
    EngineResult result;
    EXPECT_FALSE(engine->Train(data_.All(), {}, gradient, &result));
    EXPECT_NE(engine->errors().message().find("error 209"), std::string::npos)
        << engine->errors().message();
  }
}

}  // namespace
}  // namespace monsoon::cuda
