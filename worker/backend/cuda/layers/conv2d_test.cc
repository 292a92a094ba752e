// A convolution in both of its forms and in groups of any size against the reference
// layer. Built twice: for the GPU, and for the stand-in on the host.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/backend/cuda/layers/test_network.h"
#include "worker/backend/reference/layer.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::TestNetwork;

struct Shape {
  const char* name;
  bool by_sample;  // the patch is at most the output's area
  Extent input;
  uint64_t filters, kernel, stride, padding;
  bool bias = true;
  bool local = false;  // of locally_connected2d
};

constexpr Shape kShapes[] = {
    {"OneByOne", true, {5, 6, 7}, 3, 1, 1, 0},
    {"OneOutput", false, {2, 5, 5}, 4, 5, 1, 0},
    {"LeNetFirst", true, {1, 28, 28}, 20, 3, 1, 0},
    {"LeNetSecond", false, {20, 13, 13}, 50, 5, 1, 0},
    {"Padded", true, {3, 16, 16}, 8, 3, 1, 1},
    {"NotSquare", true, {2, 9, 14}, 5, 3, 1, 1, false},
    {"StrideTwoPaddingTwo", false, {3, 11, 8}, 6, 5, 2, 2},
    {"StrideTwo", true, {1, 17, 13}, 3, 2, 2, 0},
    {"WindowOverImage", false, {2, 3, 4}, 3, 7, 1, 2, false},
    {"OutputsInPadding", true, {1, 4, 5}, 2, 2, 1, 2},
    {"ManyChannels", false, {70, 4, 5}, 66, 3, 1, 1},
    {"FewerWindowsThanPixels", true, {1, 20, 20}, 2, 2, 3, 0},
};

std::vector<float> Random(size_t count, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest, 4);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = stream.Normal(i);
  }
  return values;
}

struct Step {
  std::vector<float> out, in_diff, gradient;
};

class Convolution {
 public:
  explicit Convolution(const Shape& shape)
      : network_(shape.local ? TestNetwork(shape.input)
                                   .LocallyConnected2d(shape.filters, shape.kernel, shape.stride,
                                                       shape.padding, shape.bias)
                             : TestNetwork(shape.input)
                                   .Conv2d(shape.filters, shape.kernel, shape.stride, shape.padding,
                                           shape.bias)),
        plan_(network_.layers()[0]),
        parameters_(network_.Parameters(3)) {}

  const LayerPlan& plan() const { return plan_; }

  // Of a sample's columns and products.
  uint64_t SampleBytes() const {
    const uint64_t patch = plan_.input.channels * plan_.window * plan_.window;
    return (patch + plan_.output.channels) * plan_.output.height * plan_.output.width * 4;
  }

  Step Reference(uint64_t examples) const {
    const auto precise = [](const std::vector<float>& v) {
      return std::vector<double>(v.begin(), v.end());
    };
    const std::vector<double> parameters = precise(parameters_);
    const std::vector<double> in = precise(In(examples)), out_diff = precise(OutDiff(examples));
    std::vector<double> out(out_diff.size()), in_diff(in.size()), gradient(parameters.size());
    const auto layer = reference::MakeLayer(plan_);
    const reference::Pass pass{examples, nullptr, parameters};
    layer->Forward(pass, in, out);
    layer->Backward(pass, in, out, out_diff, in_diff, gradient);
    const auto rounded = [](const std::vector<double>& v) {
      return std::vector<float>(v.begin(), v.end());
    };
    return {rounded(out), rounded(in_diff), rounded(gradient)};
  }

  // With a workspace of exactly what the layer asks for, as NaN.
  Step Run(uint64_t examples, Precision precision, uint64_t group_bytes) const {
    ErrorLog errors;
    EXPECT_TRUE(SelectDevice(0, errors));
    Stream stream(errors);
    Gemm gemm(stream, precision);
    const auto layer = plan_.kind == LayerKind::kConv2d
                           ? MakeConv2d(plan_, precision, group_bytes)
                           : MakeLocallyConnected2d(plan_, precision, group_bytes);
    const DeviceArray<float> in(stream, In(examples)), out_diff(stream, OutDiff(examples));
    const DeviceArray<float> out(stream, OutDiff(examples).size()),
        in_diff(stream, In(examples).size());
    const DeviceArray<float> parameters(stream, parameters_);
    const DeviceArray<uint16_t> halves(stream, parameters_.size());
    const DeviceArray<float> gradient(stream, parameters_.size());
    const DeviceArray<char> workspace(stream, layer->WorkspaceBytes(examples));
    if (IsHalf(precision)) {
      Cast(stream, CastToHalf{HalfOf(precision), parameters.data(), halves.data()},
           parameters_.size());
    }
    const Pass pass{stream,          gemm,    examples, parameters.data(), halves.data(),
                    gradient.data(), nullptr, nullptr,  workspace.data()};
    layer->Forward(pass, in.data(), out.data());
    layer->Backward(pass, in.data(), out.data(), out_diff.data(), in_diff.data());
    workspace.Get();  // Not written past its end.
    return {out.Get(), in_diff.Get(), gradient.Get()};
  }

  // `got` against `want`, relative to the largest value.
  void ExpectNear(const Step& got, const Step& want, double tolerance) const {
    ExpectNear("out", got.out.data(), want.out.data(), want.out.size(), tolerance);
    ExpectNear("in_diff", got.in_diff.data(), want.in_diff.data(), want.in_diff.size(), tolerance);
    for (const TensorSlot& slot : {plan_.weight, plan_.bias}) {
      ExpectNear("gradient", got.gradient.data() + slot.offset, want.gradient.data() + slot.offset,
                 slot.size, tolerance);
    }
  }

 private:
  std::vector<float> In(uint64_t examples) const {
    return Random(examples * plan_.input.size(), 1);
  }
  std::vector<float> OutDiff(uint64_t examples) const {
    return Random(examples * plan_.output.size(), 2);
  }

  static void ExpectNear(const char* what, const float* got, const float* want, size_t count,
                         double tolerance) {
    double largest = 1e-6;
    for (size_t i = 0; i < count; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    }
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(got[i], want[i], tolerance * largest) << what << " at " << i;
    }
  }

  TestNetwork network_;
  LayerPlan plan_;
  std::vector<float> parameters_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Conv2dTest : public testing::GpuTest {};

TEST_F(Conv2dTest, EqualsTheReferenceInGroupsOfAnySize) {
  for (const Shape& shape : kShapes) {
    const Convolution convolution(shape);
    const LayerPlan& plan = convolution.plan();
    EXPECT_EQ(plan.weight.size / plan.output.channels <= plan.output.height * plan.output.width,
              shape.by_sample)
        << shape.name;
    for (const uint64_t examples : {1, 2, 5}) {
      const Step want = convolution.Reference(examples);
      // Less than a sample: one at a time; two; and all.
      for (const uint64_t samples : {0, 2, 5}) {
        SCOPED_TRACE(::testing::Message()
                     << shape.name << ", " << examples << " in groups of " << samples);
        const uint64_t bytes = samples * convolution.SampleBytes();
        const Step got = convolution.Run(examples, Precision::kFloat32, bytes);
        convolution.ExpectNear(got, want, 3e-5);
        const Step again = convolution.Run(examples, Precision::kFloat32, bytes);
        EXPECT_TRUE(SameBits(got.out, again.out));
        EXPECT_TRUE(SameBits(got.in_diff, again.in_diff));
        for (const TensorSlot& slot : {plan.weight, plan.bias}) {
          EXPECT_EQ(std::memcmp(got.gradient.data() + slot.offset,
                                again.gradient.data() + slot.offset, slot.size * sizeof(float)),
                    0);
        }
      }
    }
  }
}

TEST_F(Conv2dTest, OtherPrecisions) {
  for (const Shape& shape : kShapes) {
    const Convolution convolution(shape);
    const Step want = convolution.Reference(3);
    for (const Precision precision :
         {Precision::kTf32, Precision::kBfloat16, Precision::kFloat16}) {
      SCOPED_TRACE(::testing::Message() << shape.name << ", " << static_cast<int>(precision));
      convolution.ExpectNear(convolution.Run(3, precision, 2 * convolution.SampleBytes()), want,
                             precision == Precision::kBfloat16 ? 6e-2 : 1e-2);
    }
  }
}

TEST_F(Conv2dTest, LocallyConnectedInOneGroupAndInSeveral) {
  const Shape shape{.name = "local",
                    .input = Extent{2, 7, 6},
                    .filters = 3,
                    .kernel = 3,
                    .stride = 2,
                    .padding = 1,
                    .local = true};
  const Convolution layer(shape);
  const Step want = layer.Reference(5);
  for (const uint64_t samples : {1, 2, 5}) {
    SCOPED_TRACE(samples);
    const uint64_t bytes = samples * layer.SampleBytes();
    layer.ExpectNear(layer.Run(5, Precision::kFloat32, bytes), want, 1e-5);
    layer.ExpectNear(layer.Run(5, Precision::kBfloat16, bytes), want, 6e-2);
  }
}

// A network keeps the workspace of its largest batch for smaller ones.
TEST_F(Conv2dTest, ASmallerBatchFitsTheWorkspaceOfALarger) {
  for (const Shape& shape : kShapes) {
    const Convolution convolution(shape);
    for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
      const auto layer =
          MakeConv2d(convolution.plan(), precision, 7 * convolution.SampleBytes() + 1);
      for (uint64_t examples = 1; examples < 300; ++examples) {
        ASSERT_LE(layer->WorkspaceBytes(examples), layer->WorkspaceBytes(examples + 1))
            << shape.name << " at " << examples;
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::cuda
