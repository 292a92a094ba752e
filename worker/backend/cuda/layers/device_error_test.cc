// What follows an error of the device. A program of its own, since such an error
// spoils the GPU for the whole process.
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"

#ifdef MONSOON_HOST_STAND_IN
#include "worker/backend/cuda/host/host_runtime.h"
#endif

namespace monsoon::cuda {
namespace {

class DeviceErrorTest : public testing::GpuTest {};

// Makes the next step's kernels fail. On a GPU by a label that the loss follows
// far out of its memory; the stand-in is told to.
Samples Spoil(Samples samples, std::vector<uint32_t>& labels) {
#ifdef MONSOON_HOST_STAND_IN
  FailOnHostAfter(5);
#else
  labels.assign(samples.examples, UINT32_MAX - 7);
  samples.labels = labels.data();
#endif
  return samples;
}

TEST_F(DeviceErrorTest, IsToldAndStays) {
  const testing::TestNetwork network = testing::Mlp();
  Engine engine(network.model(), {});
  const std::vector<float> parameters = network.Parameters(1);
  engine.SetParameters(parameters);
  const testing::TestData data(network, 4, 1);
  std::vector<float> gradient(network.parameter_floats());
  EngineResult result;
  ASSERT_TRUE(engine.Train(data.All(), {}, gradient, &result)) << engine.errors().message();

  std::vector<uint32_t> labels;
  EXPECT_FALSE(engine.Train(Spoil(data.All(), labels), {}, gradient, &result));
  EXPECT_EQ(engine.errors().kind(), ErrorLog::Kind::kDevice);
  const std::string message = engine.errors().message();
  EXPECT_NE(message.find("error 7"), std::string::npos) << message;

  // The same answer from then on, and nothing hangs.
  EXPECT_FALSE(engine.Train(data.All(), {}, gradient, &result));
  EXPECT_FALSE(engine.Evaluate(data.All(), &result));
  engine.SetParameters(parameters);
  EXPECT_EQ(engine.errors().message(), message);
}

}  // namespace
}  // namespace monsoon::cuda
