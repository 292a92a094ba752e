// What steps cost in bytes, calls and instructions: what docs/gpu.md says of it, held.
#include "tests/gpu/emulator/step_counts.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace monsoon::cuda::testing {
namespace {

constexpr uint64_t kExamples = 8;
// What a float of the columns took before the kernels that divide no integers, counted on
// LeNet by the same means.
constexpr double kInstructionsOfColumnBefore = 56.0;
// The results of a step, and padding between the parts of its samples.
constexpr double kSmallBytes = 1024;

class StepCountsTest : public ::testing::Test {
 protected:
  StepCounts Count(const TestNetwork& network, const std::string& name,
                   const EngineOptions& options = {}) {
    for (const CountedWay& way : CountedWays()) {
      if (way.name == name) {
        way_ = way;
        std::string problem;
        const StepCounts counts = CountSteps(network, way, kExamples, &problem, options);
        EXPECT_EQ(problem, "");
        return counts;
      }
    }
    ADD_FAILURE() << "no way is called " << name;
    return {};
  }

  CountedWay way_;  // of the last Count
};

TEST_F(StepCountsTest, ATenthOfTheVectorsCrossesAtTenStepsAPush) {
  const TestNetwork network = Mlp();
  const StepCounts before = Count(network, "n_push = 1");
  EXPECT_EQ(before.vector_bytes, 2.0 * 4.0 * static_cast<double>(network.parameter_floats()));
  for (const char* name : {"n_push = 10", "n_push = 10, local update"}) {
    const StepCounts counts = Count(network, name);
    EXPECT_LE(counts.vector_bytes, before.vector_bytes / 10) << name;
    EXPECT_GT(counts.vector_bytes, 0) << name;
    EXPECT_EQ(counts.host_copied_vectors, 0) << name;
    EXPECT_EQ(counts.allocations, 0) << name;
    EXPECT_LE(counts.sample_bytes, before.sample_bytes) << name;
  }
}

TEST_F(StepCountsTest, TheHostCopiesOnlyOrdinaryMemory) {
  const TestNetwork network = Mlp();
  EXPECT_NEAR(Count(network, "n_push = 1, pageable memory").host_copied_vectors, 2, 0.01);
  EXPECT_EQ(Count(network, "n_push = 1").host_copied_vectors, 0);
}

TEST_F(StepCountsTest, AStepOfASmallModelIsOneGraph) {
  // A graph, then the copy or the sum of its gradient.
  const StepCounts counts = Count(Mlp(), "n_push = 10");
  EXPECT_EQ(counts.graph_launches, 1);
  EXPECT_LE(counts.host_calls, 2);
}

TEST_F(StepCountsTest, AStepOfALargeModelIsAGraphWhereNothingCrosses) {
  EngineOptions options;
  options.graph_parameters = 0;
  EXPECT_EQ(Count(Mlp(), "n_push = 1", options).graph_launches, 0);
  // All but the first, whose parameters come layer by layer.
  EXPECT_NEAR(Count(Mlp(), "n_push = 10", options).graph_launches, 0.9, 1e-9);
  EXPECT_NEAR(Count(Mlp(), "n_push = 10, local update", options).graph_launches, 0.9, 1e-9);
}

TEST_F(StepCountsTest, UnfoldingTakesAThirdOfTheInstructionsItTook) {
  const TestNetwork network = LeNet();
  const double instructions =
      InstructionsOfColumn(network, kExamples, Count(network, "n_push = 1"));
  EXPECT_GT(instructions, 1);
  EXPECT_LE(instructions, kInstructionsOfColumnBefore / 3);
}

TEST_F(StepCountsTest, TheEstimateIsOfTheSameWork) {
  struct Case {
    TestNetwork network;
    std::string way;
  };
  for (const auto& [network, name] : {Case{Mlp(), "n_push = 1"},
                                      {Mlp(), "n_push = 10"},
                                      {Mlp(), "n_push = 10, local update"},
                                      {LeNet(), "n_push = 1"},
                                      {Cifar(), "n_push = 1"}}) {
    const StepCounts counts = Count(network, name);
    SCOPED_TRACE(std::to_string(network.parameter_floats()) + " parameters, " + name);
    double flops = 0;
    double kernels = 0;
    double products = 0;
    for (const roofline::Work& work :
         roofline::WorkOfStep(network.layers(), network.parameter_floats(), kExamples,
                              Precision::kFloat32, way_.way, 1e9)) {
      flops += work.flops;
      kernels += work.kernels;
      products += work.products;
    }
    EXPECT_DOUBLE_EQ(flops, counts.product_flops);
    EXPECT_EQ(products, counts.products);
    // A sum of few rows has one stage, not two.
    EXPECT_GE(kernels, std::floor(counts.kernels));
    EXPECT_LE(kernels, 1.4 * counts.kernels);
    const roofline::Crossing crossing =
        roofline::CrossingOfStep(network.layers(), network.parameter_floats(), kExamples, way_.way);
    EXPECT_NEAR(crossing.parameters + crossing.gradients, counts.vector_bytes, 1);
    EXPECT_NEAR(crossing.samples, counts.sample_bytes, kSmallBytes);
  }
}

}  // namespace
}  // namespace monsoon::cuda::testing
