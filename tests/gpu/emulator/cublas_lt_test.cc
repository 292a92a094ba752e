// Dense layers with what cuBLASLt may answer. Each case is a process of its own, with
// MONSOON_EMULATOR_CUBLASLT or a library without functions (BUILD.bazel).
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using testing::TestData;
using testing::TestNetwork;

struct Answers {
  std::vector<std::vector<float>> gradients;
  std::string failure;
  std::string fingerprint;
};

class CublasLtTest : public ::testing::Test {
 protected:
  // By single launches and by graphs.
  Answers Train(Precision precision, bool fuse_bias) {
    // The first two layers share a plan, alignments included.
    const TestNetwork network =
        TestNetwork(Extent{23}).Dense(23).Relu().Dense(23).Dense(9, false).Dense(5);
    const std::vector<float> parameters = network.Parameters(1);
    EngineOptions options;
    options.precision = precision;
    options.fuse_bias = fuse_bias;
    Engine engine(network.model(), options);
    engine.SetParameters(parameters);
    Answers answers;
    for (const uint64_t examples : {3, 3, 3, 8, 8, 3}) {
      const TestData data(network, examples, examples);
      EngineResult result;
      answers.gradients.emplace_back(network.parameter_floats());
      EXPECT_TRUE(engine.Train(data.All(), {}, answers.gradients.back(), &result))
          << engine.errors().message();
    }
    answers.failure = engine.fusion_failure();
    answers.fingerprint = engine.Fingerprint();
    EXPECT_EQ(engine.graph_failure(), "");
    return answers;
  }

  // The job goes on as if it had not been asked for, and why is told.
  void ExpectFailure(const std::string& why) {
    for (const Precision precision :
         {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16, Precision::kFloat16}) {
      const Answers got = Train(precision, true);
      const Answers off = Train(precision, false);
      EXPECT_EQ(got.gradients, off.gradients);
      EXPECT_EQ(got.failure.rfind(why, 0), 0u) << got.failure;
      EXPECT_EQ(off.failure, "");
      EXPECT_EQ(off.fingerprint.find("cuBLASLt"), std::string::npos) << off.fingerprint;
    }
  }
};

TEST_F(CublasLtTest, Works) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16, Precision::kFloat16}) {
    const Answers got = Train(precision, true);
    EXPECT_EQ(got.failure, "");
    EXPECT_NE(got.fingerprint.find(" and cuBLASLt"), std::string::npos) << got.fingerprint;
    // The emulator's product adds the bias to a sum of float32, as the kernel does.
    EXPECT_EQ(got.gradients, Train(precision, false).gradients);
  }
}

TEST_F(CublasLtTest, HasNoHandle) { ExpectFailure("cublasLtCreate: cuBLAS status 1"); }

TEST_F(CublasLtTest, HasNoAlgorithm) {
  ExpectFailure("cuBLASLt advises nothing for a product of 3 x 23 x 23 with a bias: ");
}

TEST_F(CublasLtTest, Refuses) { ExpectFailure("cublasLtMatmul: cuBLAS status 13"); }

TEST_F(CublasLtTest, IsEmpty) {
  ExpectFailure("cuBLASLt cannot be loaded: it has no cublasLtDestroy");
}

}  // namespace
}  // namespace monsoon::cuda
