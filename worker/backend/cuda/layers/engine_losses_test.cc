// The engine with each loss: what it tells, its outputs and its gradient, against the reference.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/test_network.h"
#include "worker/backend/reference/loss.h"

namespace monsoon::cuda {
namespace {

using testing::GpuTest;
using testing::TestData;
using testing::TestNetwork;

constexpr uint64_t kExamples = 6;

class EngineLossesTest : public GpuTest {
 protected:
  struct Case {
    LossPlan plan;
    bool targets = false;
  };

  // One dense layer: its bias's gradient is the sum of the loss's over the rows.
  static void Expect(const Case& one) {
    const TestNetwork network = TestNetwork(Extent{.channels = 5}).Dense(one.plan.outputs);
    EngineModel model = network.model();
    model.loss = one.plan;
    Engine engine(model, {});
    const std::vector<float> parameters = network.Parameters(7);
    engine.SetParameters(parameters);
    const TestData data(network, kExamples, 3);
    std::vector<uint32_t> labels(kExamples);
    std::vector<float> targets(one.targets ? kExamples * one.plan.outputs : 0);
    std::vector<float> weights(kExamples);
    for (uint32_t n = 0; n < kExamples; ++n) {
      labels[n] = n % std::max<uint32_t>(2, static_cast<uint32_t>(one.plan.outputs));
      weights[n] = static_cast<float>(n) / 2;
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<float>(i % 5) / 4;
    }
    Samples samples = data.All();
    samples.labels = one.targets ? nullptr : labels.data();
    samples.targets = one.targets ? targets.data() : nullptr;
    samples.weights = weights.data();
    std::vector<float> outputs(kExamples * one.plan.outputs);
    // By single launches, captured, and as a graph.
    for (int round = 0; round < 3; ++round) {
      EngineResult evaluated, trained;
      ASSERT_TRUE(engine.Evaluate(samples, &evaluated)) << engine.errors().message();
      ASSERT_TRUE(engine.CopyOutputs(outputs));
      std::vector<float> gradient(network.parameter_floats());
      ASSERT_TRUE(engine.Train(samples, {}, gradient, &trained)) << engine.errors().message();
      const std::vector<double> precise(outputs.begin(), outputs.end());
      std::vector<double> diff(outputs.size());
      LossTargets wanted{.weights = weights, .examples = kExamples};
      if (one.targets) {
        wanted.targets = targets;
      } else {
        wanted.labels = labels;
      }
      const LossSums sums = reference::ComputeLoss(one.plan, precise, wanted, diff);
      EXPECT_GT(sums.loss, 0.1);
      for (const EngineResult& result : {evaluated, trained}) {
        EXPECT_NEAR(result.loss_sum, sums.loss, 1e-5 * sums.loss);
        EXPECT_EQ(result.correct, sums.correct);
      }
      const TensorSlot& bias = network.layers().front().bias;
      for (uint64_t c = 0; c < one.plan.outputs; ++c) {
        double want = 0;
        for (uint64_t n = 0; n < kExamples; ++n) {
          want += diff[n * one.plan.outputs + c];
        }
        EXPECT_NEAR(gradient[bias.offset + c], want, 1e-5 * (1 + std::abs(want))) << c;
      }
    }
  }
};

TEST_F(EngineLossesTest, EachEqualsTheReference) {
  LossPlan softmax{.outputs = 4, .classes = 4};
  softmax.class_weights = {1, 2, 0.5f, 3};
  softmax.label_smoothing = 0.1;
  LossPlan all{.kind = LossKind::kOneVersusAllLogistic, .outputs = 4, .classes = 4};
  LossPlan binary{.kind = LossKind::kBinaryCrossEntropy, .outputs = 1, .classes = 2};
  binary.class_weights = {1, 4};
  LossPlan several{.kind = LossKind::kBinaryCrossEntropy, .outputs = 3, .classes = 3};
  LossPlan squares{.kind = LossKind::kMeanSquaredError, .outputs = 3};
  LossPlan square{.kind = LossKind::kMeanSquaredError, .outputs = 1};
  for (const Case& one : std::vector<Case>{{softmax, false},
                                           {all, false},
                                           {binary, false},
                                           {several, false},
                                           {several, true},
                                           {squares, true},
                                           {square, false}}) {
    SCOPED_TRACE(static_cast<int>(one.plan.kind) * 10 + (one.targets ? 1 : 0));
    Expect(one);
  }
}

}  // namespace
}  // namespace monsoon::cuda
