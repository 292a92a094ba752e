// A local update's operation beside the optimizers of common/: the same bits, where no product
// and sum become one instruction.
#include "worker/backend/cuda/kernels/vector_ops.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/example_optimizers.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon::cuda {
namespace {

constexpr uint64_t kSteps = 7;

struct Vectors {
  std::vector<float> w, state, moved;
};

void Update(const OptimizerKernel& kernel, uint64_t k, const std::vector<float>& g, bool fresh,
            Vectors* vectors) {
  const std::optional<OptimizerStep> step = kernel.StepAt(k);
  ASSERT_TRUE(step.has_value());
  float* const state = vectors->state.data();
  float* const second = kernel.state_slots() > 1 ? state + g.size() : nullptr;
  const UpdateParameters op{
      *step, g.data(), vectors->w.data(), state, second, vectors->moved.data(), fresh};
  for (uint32_t i = 0; i < g.size(); ++i) {
    op(i);
  }
}

// Over several decades; the first is padding.
std::vector<float> Gradient(size_t size, uint64_t k) {
  const PhiloxStream random(k, StreamKind::kTest);
  std::vector<float> g(size);
  for (size_t i = 1; i < size; ++i) {
    g[i] = random.Normal(i) * std::pow(10.0f, static_cast<float>(i % 7) - 5.0f);
  }
  return g;
}

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

void ExpectSameBits(const std::string& text) {
  ASSERT_OK_AND_ASSIGN(const auto kernel, OptimizerKernel::Create(Parse(text)));
  const auto slots = static_cast<size_t>(kernel->state_slots());
  for (const size_t size : {1u, 17u, 1003u}) {
    Vectors host{Gradient(size, 100), std::vector<float>(size * slots, kernel->initial_state()),
                 std::vector<float>(size, std::numeric_limits<float>::quiet_NaN())};
    Vectors device = host;
    for (uint64_t k = 0; k < kSteps; ++k) {
      const std::vector<float> g = Gradient(size, k);
      const bool fresh = k % 4 == 0;
      kernel->ApplyAndTell(k, host.w, host.state, g, host.moved, fresh);
      Update(*kernel, k, g, fresh, &device);
      ASSERT_EQ(device.w, host.w) << size << " floats, step " << k;
      ASSERT_EQ(device.state, host.state) << size << " floats, step " << k;
      ASSERT_EQ(device.moved, host.moved) << size << " floats, step " << k;
    }
    EXPECT_EQ(device.w[0], 0.0f);
  }
}

TEST(UpdateParametersTest, HasTheBitsOfTheOptimizers) {
  for (const std::string& kind : monsoon::testing::ExampleOptimizers()) {
    const bool decays = FindKind(Parse(kind))->own_decay != nullptr;
    const std::string decay = decays ? "" : " weight_decay: 0.125";
    for (const std::string& more : {std::string(), " clip_value: 0.5" + decay}) {
      const std::string text = kind + " schedule { warm_up_pushes: 3 }" + more;
      SCOPED_TRACE(text);
      ExpectSameBits(text);
    }
  }
}

}  // namespace
}  // namespace monsoon::cuda
