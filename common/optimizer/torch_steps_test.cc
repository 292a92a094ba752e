// The same steps as torch.optim: testdata/torch_steps.txt, which
// tests/interop/torch_optimizers.py writes and compares with the torch that is there.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/optimizer/torch_table.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using testing::ReadTorchTable;
using testing::TorchGradient;

constexpr const char* kCases[] = {
    "adam { rate: 0.01 }",
    "adam { rate: 0.02 beta1: 0.8 beta2: 0.95 epsilon: 1e-4 } weight_decay: 0.1",
    "adam_w { rate: 0.01 }",
    "adam_w { rate: 0.02 beta1: 0.8 beta2: 0.95 epsilon: 1e-4 weight_decay: 0.1 }",
    "rms_prop { rate: 0.01 }",
    "rms_prop { rate: 0.02 alpha: 0.9 epsilon: 1e-4 momentum: 0.9 } weight_decay: 0.1",
    "lion { rate: 0.01 }",
    "lion { rate: 0.02 beta1: 0.8 beta2: 0.95 weight_decay: 0.1 }",
};
constexpr int kSteps = 100;

TEST(TorchStepsTest, AHundredStepsAreThoseOfTorch) {
  const auto table = ReadTorchTable("common/optimizer/testdata/torch_steps.txt");
  ASSERT_EQ(table.size(), 192u);
  for (int number = 0; number < 8; ++number) {
    Optimizer optimizer;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kCases[number], &optimizer));
    ASSERT_OK_AND_ASSIGN(const auto kernel, OptimizerKernel::Create(optimizer));
    std::vector<float> w(std::begin(testing::kTorchStart), std::end(testing::kTorchStart));
    std::vector<float> state(3 * static_cast<size_t>(kernel->state_slots()), 0.0f);
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<float> g;
      for (int i = 0; i < 3; ++i) {
        g.push_back(TorchGradient(step, i));
      }
      kernel->Apply(static_cast<uint64_t>(step - 1), w, state, g);
      const auto expected = table.find({number, step});
      for (size_t i = 0; expected != table.end() && i < 3; ++i) {
        // Two units in the last place of 1 for each step so far.
        EXPECT_NEAR(w[i], expected->second[i], 2 * 0x1p-23 * step)
            << kCases[number] << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace monsoon
