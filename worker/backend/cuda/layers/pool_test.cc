// Pooling kernels against the reference layers.
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/kernels/image_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/test_network.h"
#include "worker/backend/reference/layer.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::TestNetwork;

class PoolTest : public testing::GpuTest {};

void CheckPool(const TestNetwork& network, bool equal_values) {
  const LayerPlan& plan = network.layers()[0];
  constexpr uint64_t kExamples = 3;
  const PhiloxStream random(1, StreamKind::kTest);
  std::vector<float> in(kExamples * plan.input.size());
  std::vector<float> out_diff(kExamples * plan.output.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = equal_values ? static_cast<float>(random.Below(i, 3)) : random.Normal(i);
  }
  for (size_t i = 0; i < out_diff.size(); ++i) {
    out_diff[i] = random.Normal(in.size() + i);
  }
  const std::vector<double> precise(in.begin(), in.end());
  const std::vector<double> precise_diff(out_diff.begin(), out_diff.end());
  std::vector<double> want(out_diff.size()), want_diff(in.size());
  const auto reference = reference::MakePool2d(plan);
  reference->Forward({kExamples, nullptr, {}}, precise, want);
  reference->Backward({kExamples, nullptr, {}}, precise, want, precise_diff, want_diff, {});

  ErrorLog errors;
  ASSERT_TRUE(SelectDevice(0, errors));
  Stream stream(errors);
  const DeviceArray<float> device_in(stream, in), device_diff(stream, out_diff);
  const DeviceArray<float> out(stream, want.size()), in_diff(stream, in.size());
  const bool maximum = plan.kind == LayerKind::kMaxPool2d;
  const ImageShape shape = ToImageShape(plan);
  Pool(stream, PoolForward{shape, maximum, device_in.data(), out.data()}, want.size());
  PoolGradient(stream,
               PoolBackward{shape, maximum, device_in.data(), device_diff.data(), in_diff.data()},
               in.size());
  const std::vector<float> got = out.Get();
  const std::vector<float> got_diff = in_diff.Get();
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-6) << i;
  }
  for (size_t i = 0; i < want_diff.size(); ++i) {
    ASSERT_NEAR(got_diff[i], want_diff[i], 2e-6) << i;
  }
}

TEST_F(PoolTest, EqualsTheReference) {
  struct Window {
    uint64_t window, stride;
  };
  // Tight, with a rest, overlapping, sparse, and the whole image.
  for (const Window& w : {Window{1, 1}, Window{2, 2}, Window{4, 4}, Window{3, 1}, Window{3, 2},
                          Window{2, 3}, Window{2, 5}, Window{7, 7}}) {
    SCOPED_TRACE(::testing::Message() << "window " << w.window << " stride " << w.stride);
    CheckPool(TestNetwork(Extent{3, 9, 7}).AveragePool(w.window, w.stride), false);
    CheckPool(TestNetwork(Extent{3, 9, 7}).MaxPool(w.window, w.stride), false);
  }
}

TEST_F(PoolTest, OfEqualMaximaTheFirstGetsTheGradient) {
  CheckPool(TestNetwork(Extent{2, 8, 8}).MaxPool(3, 1), true);
  CheckPool(TestNetwork(Extent{2, 8, 8}).MaxPool(2), true);
}

}  // namespace
}  // namespace monsoon::cuda
