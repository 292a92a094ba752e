// The roofline model against values worked out by hand.
#include "tests/gpu/roofline.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon::roofline {
namespace {

using cuda::Precision;

LayerPlan Dense(uint64_t inputs, uint64_t units) {
  LayerPlan plan;
  plan.kind = LayerKind::kDense;
  plan.name = "dense";
  plan.input = {inputs};
  plan.output = {units};
  plan.weight = {0, inputs * units};
  plan.bias = {inputs * units, units};
  return plan;
}

LayerPlan Relu(Extent extent) {
  LayerPlan plan;
  plan.kind = LayerKind::kRelu;
  plan.name = "relu";
  plan.input = plan.output = extent;
  return plan;
}

LayerPlan Conv(Extent input, uint64_t filters, uint64_t window) {
  LayerPlan plan;
  plan.kind = LayerKind::kConv2d;
  plan.name = "conv";
  plan.input = input;
  plan.output = {filters, input.height - window + 1, input.width - window + 1};
  plan.window = window;
  plan.weight = {0, filters * input.channels * window * window};
  plan.bias = {plan.weight.size, filters};
  return plan;
}

const Work& Of(const std::vector<Work>& works, const std::string& name) {
  static const Work none;
  const auto found =
      std::find_if(works.begin(), works.end(), [&](const Work& work) { return work.name == name; });
  EXPECT_NE(found, works.end()) << name;
  return found == works.end() ? none : *found;
}

constexpr Way kEachStep{.n_push = 1};

TEST(RooflineTest, ADenseLayerIsThreeProducts) {
  // 10 -> 4, batch 8; a layer before it has parameters too.
  const std::vector<LayerPlan> layers = {Dense(6, 10), Dense(10, 4)};
  const auto works = WorkOfStep(layers, 114, 8, Precision::kFloat32, kEachStep, 0);
  const Work& backward = works[works.size() - 3];
  EXPECT_EQ(works[1].flops, 2 * 10 * 4 * 8);
  // Weights, input, and the output written once, with the bias.
  EXPECT_EQ(works[1].bytes, 4 * (40 + 80 + 32));
  EXPECT_EQ(works[1].kernels, 0u);
  EXPECT_EQ(works[1].products, 1u);
  EXPECT_EQ(backward.flops, 2 * 2 * 10 * 4 * 8);
  // Gradient of weights, input, differences three times; weights and the input's gradient.
  EXPECT_EQ(backward.bytes, 4 * (40 + 80 + 3 * 32 + 40 + 80));
  EXPECT_EQ(backward.products, 2u);
  // Nobody asks for the gradient of the samples.
  EXPECT_EQ(works[works.size() - 2].flops, 2 * 6 * 10 * 8);
  EXPECT_EQ(works[works.size() - 2].products, 1u);
}

TEST(RooflineTest, ActivationsAreBytesAlone) {
  const std::vector<LayerPlan> layers = {Dense(3, 5), Relu({5}), Dense(5, 2)};
  const auto works = WorkOfStep(layers, 32, 7, Precision::kFloat32, kEachStep, 0);
  EXPECT_EQ(Of(works, "relu forward").bytes, 4 * 2 * 35);
  EXPECT_EQ(Of(works, "relu backward").bytes, 4 * 3 * 35);
  EXPECT_EQ(Of(works, "relu forward").flops, 0);
  EXPECT_EQ(Of(works, "loss").bytes, 4 * 4 * 14);
}

TEST(RooflineTest, ColumnsCountWhereTheyLeaveTheCache) {
  // 2 x 9 x 9 by 3 x 3: patch 18, area 49, so by sample.
  const std::vector<LayerPlan> layers = {Conv({2, 9, 9}, 6, 3)};
  const double in = 4 * 162, out = 4 * 294, columns = 4 * 882;
  const auto cached = WorkOfStep(layers, 114, 4, Precision::kFloat32, kEachStep, 1e6);
  const auto spilt = WorkOfStep(layers, 114, 4, Precision::kFloat32, kEachStep, 0);
  EXPECT_EQ(Of(cached, "conv forward").flops, 2 * 6 * columns);
  EXPECT_EQ(Of(cached, "conv forward").bytes, 4 * (108 + in + out));
  EXPECT_EQ(Of(spilt, "conv forward").bytes, 4 * (108 + in + out + 2 * columns + 2 * out));
  EXPECT_EQ(Of(cached, "conv backward").flops, 2 * 6 * columns);
  EXPECT_EQ(Of(cached, "conv forward").kernels, 2u);
}

TEST(RooflineTest, HalvesTakeHalfTheBytesAsFactors) {
  const std::vector<LayerPlan> layers = {Dense(10, 4)};
  const auto works = WorkOfStep(layers, 44, 8, Precision::kBfloat16, kEachStep, 0);
  // Weights as halves, input as float and then as halves, written and read.
  EXPECT_EQ(Of(works, "dense forward").bytes, 2 * 40 + 4 * (80 + 32) + 2 * 2 * 80);
  EXPECT_EQ(Of(works, "dense forward").kernels, 1u);
}

TEST(RooflineTest, VectorsOfTheModelPassThroughMemory) {
  const std::vector<LayerPlan> layers = {Dense(10, 4)};
  const auto bytes = [&](const Way& way) {
    return Of(WorkOfStep(layers, 48, 8, Precision::kFloat32, way, 0), "vectors").bytes;
  };
  EXPECT_EQ(bytes({.n_push = 1}), 0);
  // A copy, then nine additions.
  EXPECT_DOUBLE_EQ(bytes({.n_push = 10}), 4 * 48 * (2 + 9 * 3) / 10.0);
  // Seven vectors of Adagrad, one fewer in the first step; the last push's displacement.
  EXPECT_DOUBLE_EQ(bytes({.n_push = 10, .local_update = true}),
                   4 * 48 * ((2 + 9 * 3) + (70 - 1) + 3) / 10.0);
}

TEST(RooflineTest, BetweenAFetchAndAPushNothingCrosses) {
  const std::vector<LayerPlan> layers = {Dense(10, 4)};
  const Crossing each = CrossingOfStep(layers, 48, 8, {.n_push = 10, .on_device = false});
  const Crossing tenth = CrossingOfStep(layers, 48, 8, {.n_push = 10});
  EXPECT_EQ(each.parameters, 4 * 48);
  EXPECT_EQ(each.gradients, 4 * 48);
  EXPECT_DOUBLE_EQ(tenth.parameters, 19.2);
  EXPECT_DOUBLE_EQ(tenth.gradients, 19.2);
  EXPECT_EQ(tenth.samples, 4 * 8 * 11);  // ten values and a label each
}

TEST(RooflineTest, AStepIsTheSumOfEachLayersLargerTerm) {
  Gpu gpu;
  gpu.float32 = 1000;  // flops
  gpu.float16 = 8000;
  gpu.memory = 500;  // bytes
  gpu.pcie = 50;
  const std::vector<LayerPlan> layers = {Dense(10, 4)};
  const Estimate e = EstimateStep(gpu, layers, 44, 8, Precision::kFloat32, kEachStep);
  // Forward 640 flops, 608 bytes; loss 512 bytes; backward 640 flops, 4 (40 + 80 + 64).
  EXPECT_DOUBLE_EQ(e.compute, 608 / 500.0 + 512 / 500.0 + 736 / 500.0);
  EXPECT_DOUBLE_EQ(e.flops, 1.28);
  EXPECT_DOUBLE_EQ(e.memory, e.compute);
  // Kernels 0 + 4 + 2 and products 1 + 1, as a graph.
  EXPECT_DOUBLE_EQ(e.launches, 8 * kGraphLaunchSeconds);
  // Up: parameters 176 and samples 352.
  EXPECT_DOUBLE_EQ(e.pcie, 528 / 50.0);
  EXPECT_DOUBLE_EQ(e.Overlapped(), e.pcie);
  // The gradient goes down after the parameters have come up.
  EXPECT_DOUBLE_EQ(
      EstimateStep(gpu, layers, 44, 8, Precision::kFloat32, {.n_push = 1, .on_device = false}).pcie,
      (528 + 176) / 50.0);
  EXPECT_DOUBLE_EQ(e.Serial(), e.compute + e.launches + e.pcie);
  gpu.memory = 1e9;
  EXPECT_NEAR(EstimateStep(gpu, layers, 44, 8, Precision::kFloat32, kEachStep).compute, 1.28, 1e-5);
  EXPECT_NEAR(EstimateStep(gpu, layers, 44, 8, Precision::kFloat16, kEachStep).compute, 0.16, 1e-5);
  // No tensor cores for these: float32, and nothing.
  EXPECT_NEAR(EstimateStep(gpu, layers, 44, 8, Precision::kTf32, kEachStep).compute, 1.28, 1e-5);
  EXPECT_EQ(EstimateStep(gpu, layers, 44, 8, Precision::kBfloat16, kEachStep).Serial(), 0);
}

TEST(RooflineTest, ALargeModelIsAGraphWhereNothingCrosses) {
  const std::vector<LayerPlan> layers = {Dense(10, 4)};
  const auto launches = [&](const Way& way) {
    return EstimateStep(PublishedGpus()[0], layers, uint64_t{3} << 20, 8, Precision::kFloat32, way)
        .launches;
  };
  EXPECT_DOUBLE_EQ(launches({.n_push = 1, .on_device = false}), 8 * kLaunchSeconds);
  EXPECT_DOUBLE_EQ(launches({.n_push = 10}),
                   9 * (0.9 * kGraphLaunchSeconds + 0.1 * kLaunchSeconds));
}

TEST(RooflineTest, PublishedFiguresAreFoundByTheDevicesName) {
  ASSERT_NE(FindGpu("NVIDIA H100 80GB HBM3"), nullptr);
  EXPECT_EQ(FindGpu("NVIDIA H100 80GB HBM3")->name, "H100 SXM");
  EXPECT_EQ(FindGpu("NVIDIA A100-SXM4-80GB")->name, "A100 80GB SXM");
  EXPECT_EQ(FindGpu("Tesla T4")->name, "T4");
  EXPECT_EQ(FindGpu("NVIDIA H100 PCIe"), nullptr);
  EXPECT_EQ(FindGpu("NVIDIA A100-SXM4-40GB"), nullptr);
  EXPECT_EQ(FindGpu("NVIDIA L4"), nullptr);
}

// The properties of the three give what is published of them, to a few percent. That of
// H100's tensor cores is published for a lower clock than that of its other units.
TEST(RooflineTest, PropertiesGiveThePublishedFigures) {
  const auto near = [](const Gpu& got, const Gpu& want, double tensor_share) {
    EXPECT_NEAR(got.float32 / want.float32, 1, 0.02) << want.name;
    EXPECT_NEAR(got.float16 / want.float16, tensor_share, 0.02) << want.name;
    EXPECT_NEAR(got.memory / want.memory, 1, 0.02) << want.name;
    EXPECT_EQ(got.pcie, want.pcie) << want.name;
    EXPECT_EQ(got.tf32 > 0, want.tf32 > 0) << want.name;
    EXPECT_EQ(got.bfloat16 > 0, want.bfloat16 > 0) << want.name;
    if (want.tf32 > 0) {
      EXPECT_NEAR(got.tf32 / want.tf32, tensor_share, 0.02) << want.name;
    }
  };
  near(FromRates({"", 90, 132, 1.98e9, 2.619e9, 5120, 50e6}), PublishedGpus()[0], 1.98 / 1.83);
  near(FromRates({"", 80, 108, 1.41e9, 1.593e9, 5120, 40e6}), PublishedGpus()[1], 1);
  near(FromRates({"", 75, 40, 1.59e9, 5.001e9, 256, 4e6}), PublishedGpus()[2], 1);
}

}  // namespace
}  // namespace monsoon::roofline
