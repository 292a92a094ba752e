// An engine beside the reference backend in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda::testing {

inline constexpr double kFloat32Tolerance = 3e-5;  // the oneDNN backend's

inline std::vector<double> Precise(const std::vector<float>& values) {
  return std::vector<double>(values.begin(), values.end());
}

// An engine beside the oracle.
class Pair {
 public:
  explicit Pair(const TestNetwork& network, const EngineOptions& options = {})
      : network(network),
        oracle(network),
        engine(network.model(), options) {
    EXPECT_TRUE(engine.errors().ok()) << engine.errors().message();
    Set(network.Parameters(7));
  }

  void Set(std::vector<float> values) {
    parameters = std::move(values);
    engine.SetParameters(parameters);
  }

  std::vector<float> Gradient(const Samples& samples, const StepKey& key, EngineResult* result) {
    std::vector<float> gradient(network.parameter_floats(), NAN);
    EXPECT_TRUE(engine.Train(samples, key, gradient, result)) << engine.errors().message();
    return gradient;
  }

  // Largest difference relative to the largest value of the tensor it is in.
  void ExpectSameStep(const Samples& samples, const StepKey& key, double tolerance) {
    EngineResult got;
    const std::vector<float> gradient = Gradient(samples, key, &got);
    const Oracle::Result want = oracle.Run(Precise(parameters), samples, &key);
    const double examples = static_cast<double>(samples.examples);
    EXPECT_NEAR(got.loss_sum, want.loss_sum, tolerance * (examples + want.loss_sum));
    if (tolerance <= kFloat32Tolerance) {
      EXPECT_EQ(got.correct, want.correct);
    }
    std::vector<bool> covered(gradient.size());
    for (const LayerPlan& plan : network.layers()) {
      for (const TensorSlot& slot : plan.tensors) {
        double largest = 1e-6;
        double difference = 0;
        for (uint64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
          ASSERT_TRUE(std::isfinite(gradient[i])) << plan.name << " at " << i - slot.offset;
          largest = std::max(largest, std::abs(want.gradient[i]));
          difference = std::max(difference, std::abs(gradient[i] - want.gradient[i]));
          covered[i] = true;
        }
        EXPECT_LT(difference / largest, tolerance) << plan.name;
      }
    }
    for (size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_TRUE(covered[i] || gradient[i] == 0.0f) << "padding at " << i;
    }
  }

  void ExpectSameEvaluation(const Samples& samples, double tolerance) {
    EngineResult got;
    ASSERT_TRUE(engine.Evaluate(samples, &got)) << engine.errors().message();
    const Oracle::Result want = oracle.Run(Precise(parameters), samples, nullptr);
    EXPECT_NEAR(got.loss_sum, want.loss_sum,
                tolerance * (static_cast<double>(samples.examples) + want.loss_sum));
    if (tolerance <= kFloat32Tolerance) {
      EXPECT_EQ(got.correct, want.correct);
    }
  }

  TestNetwork network;
  Oracle oracle;
  Engine engine;
  std::vector<float> parameters;
};

}  // namespace monsoon::cuda::testing
