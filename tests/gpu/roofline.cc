#include "tests/gpu/roofline.h"

#include <algorithm>
#include <cmath>

namespace monsoon::roofline {
namespace {

using cuda::Precision;

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kMebi = 1 << 20;
constexpr double kFloat = sizeof(float);

// One direction of 16 lanes, after the coding of the line.
constexpr double kPcie3 = 15.75 * kGiga;
constexpr double kPcie4 = 31.5 * kGiga;
constexpr double kPcie5 = 63.0 * kGiga;

// As kConvolutionGroupBytes (layer.h) and EngineOptions::graph_parameters (engine.h).
constexpr double kGroupBytes = 24 * kMebi;
constexpr uint64_t kGraphFloats = uint64_t{1} << 21;

// Vectors of the model's size that are read and written.
constexpr double kCopyVectors = 2;
constexpr double kAddVectors = 3;
// Reads gradient, parameters, history and displacement, writes the last three.
constexpr double kAdagradVectors = 7;

double FactorBytes(Precision precision) { return cuda::IsHalf(precision) ? 2 : 4; }

bool HasParameters(const LayerPlan& layer) { return layer.weight.size > 0; }

class StepWork {
 public:
  StepWork(uint64_t examples, Precision precision, double cache)
      : examples_(static_cast<double>(examples)),
        factor_(FactorBytes(precision)),
        half_(cuda::IsHalf(precision)),
        scaled_(precision == Precision::kFloat16),
        cache_(cache) {}

  Work Forward(const LayerPlan& layer) const {
    switch (layer.kind) {
      case LayerKind::kDense:
        return DenseForward(layer);
      case LayerKind::kConv2d:
        return ConvForward(layer);
      case LayerKind::kFlatten:
        return {};
      default:
        return {"", 0, (In(layer) + Out(layer)) * kFloat, 1, 0};
    }
  }

  Work Backward(const LayerPlan& layer, bool first) const {
    switch (layer.kind) {
      case LayerKind::kDense:
        return WithUnscaling(layer, DenseBackward(layer, first));
      case LayerKind::kConv2d:
        return WithUnscaling(layer, ConvBackward(layer, first));
      case LayerKind::kFlatten:
        return {};
      default:
        return {"", 0, (In(layer) + 2 * Out(layer)) * kFloat, 1, 0};
    }
  }

  Work Loss(const LayerPlan& last) const {
    // Largest output, sums and gradient each read the outputs.
    return {"loss", 0, 4 * Out(last) * kFloat, 4, 0};
  }

 private:
  struct Convolution {
    double columns;  // floats, of the batch
    double flops;
    bool by_sample;
    bool cached;  // a group's scratch lies in L2
    uint32_t groups;
    double largest_group;
  };

  double In(const LayerPlan& layer) const {
    return examples_ * static_cast<double>(layer.input.size());
  }
  double Out(const LayerPlan& layer) const {
    return examples_ * static_cast<double>(layer.output.size());
  }

  Work DenseForward(const LayerPlan& layer) const {
    const double weights = static_cast<double>(layer.weight.size);
    // cuBLASLt's product ends with the bias.
    Work work{"", 2 * weights * examples_, 0, half_ ? 1u : 0u, 1};
    work.bytes = weights * factor_ + In(layer) * kFloat + Out(layer) * kFloat +
                 (half_ ? 2 * In(layer) * factor_ : 0);
    return work;
  }

  Work DenseBackward(const LayerPlan& layer, bool first) const {
    const double weights = static_cast<double>(layer.weight.size);
    const uint32_t bias = layer.bias.size > 0 ? 2 : 0;  // in two stages
    const double products = first ? 1 : 2;
    Work work{"", products * 2 * weights * examples_, 0, bias + (half_ ? 2u : 0u), first ? 1u : 2u};
    work.bytes = weights * kFloat + In(layer) * kFloat +
                 Out(layer) * kFloat * (products + (bias > 0 ? 1 : 0)) +
                 (half_ ? 2 * (In(layer) + Out(layer)) * factor_ : 0);
    if (!first) {
      work.bytes += weights * factor_ + In(layer) * kFloat;
    }
    return work;
  }

  Convolution Of(const LayerPlan& layer) const {
    const double channels = static_cast<double>(layer.output.channels);
    const double area = static_cast<double>(layer.output.height * layer.output.width);
    const double patch = static_cast<double>(layer.weight.size) / channels;
    const double one = (patch + channels) * area * kFloat;
    Convolution convolution{};
    convolution.columns = examples_ * patch * area;
    convolution.flops = 2 * channels * convolution.columns;
    convolution.by_sample = patch <= area;
    convolution.largest_group = std::clamp(std::floor(kGroupBytes / one), 1.0, examples_);
    convolution.groups = static_cast<uint32_t>(std::ceil(examples_ / convolution.largest_group));
    convolution.cached = convolution.largest_group * one <= cache_;
    return convolution;
  }

  Work ConvForward(const LayerPlan& layer) const {
    const Convolution c = Of(layer);
    // Unfold and bias, or unfold and layout with the bias in it.
    const uint32_t kernels = c.by_sample && layer.bias.size == 0 ? 1 : 2;
    Work work{"", c.flops, 0, kernels * c.groups, c.groups};
    work.bytes =
        static_cast<double>(layer.weight.size) * factor_ + In(layer) * kFloat + Out(layer) * kFloat;
    if (!c.cached) {
      work.bytes += 2 * c.columns * factor_ + 2 * Out(layer) * kFloat;
    }
    return work;
  }

  Work ConvBackward(const LayerPlan& layer, bool first) const {
    const Convolution c = Of(layer);
    const double products = first ? 1 : 2;
    uint32_t kernels = 1;                                     // unfold
    kernels += !c.by_sample || half_ ? 1 : 0;                 // layout or halves
    kernels += c.by_sample && c.largest_group > 1 ? 2u : 0u;  // sum of the samples' gradients
    kernels += first ? 0 : 1;                                 // fold
    Work work{"", products * c.flops, 0, 0, c.groups * (first ? 1u : 2u)};
    work.kernels = kernels * c.groups + (layer.bias.size > 0 ? 2u : 0u);
    work.bytes = static_cast<double>(layer.weight.size) * kFloat + In(layer) * kFloat +
                 Out(layer) * kFloat * (layer.bias.size > 0 ? 2 : 1);
    if (!c.cached) {
      work.bytes += products * 2 * c.columns * factor_;
      work.bytes += c.by_sample ? (half_ ? 2 * Out(layer) * factor_ : 0)
                                : (1 + products) * Out(layer) * factor_;
    }
    if (!first) {
      work.bytes += static_cast<double>(layer.weight.size) * factor_ + In(layer) * kFloat;
    }
    return work;
  }

  Work WithUnscaling(const LayerPlan& layer, Work work) const {
    if (scaled_) {
      work.bytes += 2 * static_cast<double>(layer.weight.size + layer.bias.size) * kFloat;
      work.kernels += layer.bias.size > 0 ? 2 : 1;
    }
    return work;
  }

  const double examples_;
  const double factor_;
  const bool half_;
  const bool scaled_;
  const double cache_;
};

// The sum of gradients, the local optimizer and the change to halves, in the mean of n_push
// steps. A launch that comes once in n_push steps counts as one.
Work VectorWork(uint64_t floats, Precision precision, const Way& way) {
  const double n = way.n_push;
  double vectors = 0;
  Work work{"vectors", 0, 0, 0, 0};
  if (way.on_device && way.n_push > 1) {
    vectors += (kCopyVectors + (n - 1) * kAddVectors) / n;
    ++work.kernels;
  }
  if (way.on_device && way.local_update) {
    // After a fetch the push that is in flight is put back.
    vectors += kAdagradVectors - 1 / n + kAddVectors / n;
    ++work.kernels;
  }
  work.bytes = vectors * static_cast<double>(floats) * kFloat;
  if (cuda::IsHalf(precision)) {
    const double casts = way.local_update || !way.on_device ? 1 : 1 / n;
    work.bytes += casts * static_cast<double>(floats) * (kFloat + 2);
    ++work.kernels;
  }
  return work;
}

double Peak(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return gpu.float32;
    case Precision::kTf32:
      return gpu.tf32 > 0 ? gpu.tf32 : gpu.float32;
    case Precision::kBfloat16:
      return gpu.bfloat16;
    case Precision::kFloat16:
      return gpu.float16;
  }
  return 0;
}

}  // namespace

const std::vector<Gpu>& PublishedGpus() {
  static const std::vector<Gpu>* const gpus = new std::vector<Gpu>{
      {.name = "H100 SXM",
       .float32 = 66.9 * kTera,
       .tf32 = 494.7 * kTera,
       .bfloat16 = 989.4 * kTera,
       .float16 = 989.4 * kTera,
       .memory = 3350 * kGiga,
       .cache = 50 * kMebi,
       .pcie = kPcie5,
       .pcie_name = "5.0 x16",
       .source = "NVIDIA H100 Tensor Core GPU Architecture (white paper) and H100 data sheet"},
      {.name = "A100 80GB SXM",
       .float32 = 19.5 * kTera,
       .tf32 = 156 * kTera,
       .bfloat16 = 312 * kTera,
       .float16 = 312 * kTera,
       .memory = 2039 * kGiga,
       .cache = 40 * kMebi,
       .pcie = kPcie4,
       .pcie_name = "4.0 x16",
       .source = "NVIDIA A100 Tensor Core GPU Architecture (white paper) and A100 data sheet"},
      {.name = "T4",
       .float32 = 8.1 * kTera,
       .tf32 = 0,
       .bfloat16 = 0,
       .float16 = 65 * kTera,
       .memory = 320 * kGiga,
       .cache = 4 * kMebi,
       .pcie = kPcie3,
       .pcie_name = "3.0 x16",
       .source = "NVIDIA T4 data sheet and Turing GPU Architecture (white paper)"}};
  return *gpus;
}

const Gpu* FindGpu(const std::string& device_name) {
  const auto has = [&](const char* part) { return device_name.find(part) != std::string::npos; };
  // Other forms (PCIe cards, NVL, 40 GB) have other rates.
  if (has("H100 80GB HBM3")) {
    return &PublishedGpus()[0];
  }
  if (has("A100-SXM") && has("80GB")) {
    return &PublishedGpus()[1];
  }
  return has("Tesla T4") ? &PublishedGpus()[2] : nullptr;
}

Gpu FromRates(const cuda::DeviceRates& p) {
  const double per_clock = static_cast<double>(p.multiprocessors) * p.clock;
  // Of a multiprocessor: float32 lanes, and flops by tensor cores in one cycle.
  const bool wide = p.capability >= 86;
  const double half = p.capability >= 90 ? 4096 : p.capability == 80 ? 2048 : 1024;
  Gpu gpu;
  gpu.name = p.name;
  gpu.float32 = 2 * (wide ? 128 : 64) * per_clock;
  gpu.float16 = half * per_clock;
  if (p.capability >= 80) {
    gpu.tf32 = half / 2 * per_clock;
    gpu.bfloat16 = half * per_clock;
  }
  gpu.memory = 2 * p.memory_clock * p.memory_bus_bits / 8;
  gpu.cache = p.cache;
  gpu.pcie = p.capability >= 90 ? kPcie5 : p.capability >= 80 ? kPcie4 : kPcie3;
  gpu.pcie_name = p.capability >= 90 ? "5.0 x16" : p.capability >= 80 ? "4.0 x16" : "3.0 x16";
  gpu.source = "the device's own properties; tensor cores by compute capability, PCIe assumed";
  return gpu;
}

std::vector<Work> WorkOfStep(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                             uint64_t examples, Precision precision, const Way& way, double cache) {
  const StepWork step(examples, precision, cache);
  size_t first = 0;
  while (first < layers.size() && !HasParameters(layers[first])) {
    ++first;
  }
  std::vector<Work> all;
  const auto add = [&](const LayerPlan& layer, const char* direction, Work work) {
    work.name = layer.name + direction;
    all.push_back(std::move(work));
  };
  for (const LayerPlan& layer : layers) {
    add(layer, " forward", step.Forward(layer));
  }
  all.push_back(step.Loss(layers.back()));
  for (size_t i = layers.size(); i-- > first;) {
    add(layers[i], " backward", step.Backward(layers[i], i == first));
  }
  all.push_back(VectorWork(parameter_floats, precision, way));
  return all;
}

Crossing CrossingOfStep(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                        uint64_t examples, const Way& way) {
  const double every = way.on_device ? way.n_push : 1;
  Crossing crossing;
  crossing.parameters = static_cast<double>(parameter_floats) * kFloat / every;
  crossing.gradients = crossing.parameters;
  crossing.samples = static_cast<double>(examples) *
                     (static_cast<double>(layers.front().input.size()) + 1) * kFloat;
  return crossing;
}

double Estimate::Overlapped() const { return std::max(compute + launches, pcie); }
double Estimate::Serial() const { return compute + launches + pcie; }

Estimate EstimateStep(const Gpu& gpu, const std::vector<LayerPlan>& layers,
                      uint64_t parameter_floats, uint64_t examples, Precision precision,
                      const Way& way) {
  const double peak = Peak(gpu, precision);
  if (peak <= 0) {
    return {};
  }
  Estimate estimate;
  uint32_t launches = 0;
  for (const Work& work :
       WorkOfStep(layers, parameter_floats, examples, precision, way, gpu.cache)) {
    estimate.compute += std::max(work.flops / peak, work.bytes / gpu.memory);
    estimate.flops += work.flops / peak;
    estimate.memory += work.bytes / gpu.memory;
    launches += work.kernels + work.products;
  }
  // A step is a graph where nothing crosses in it, and for small models anyway.
  const double crossing_steps = !way.on_device ? 1 : 1.0 / way.n_push;
  const double as_graph = parameter_floats <= kGraphFloats ? 1 : 1 - crossing_steps;
  estimate.launches = launches * (as_graph * kGraphLaunchSeconds + (1 - as_graph) * kLaunchSeconds);
  const Crossing crossing = CrossingOfStep(layers, parameter_floats, examples, way);
  const double up = crossing.parameters + crossing.samples;
  const double down = crossing.gradients;
  estimate.pcie = (way.on_device ? std::max(up, down) : up + down) / gpu.pcie;
  return estimate;
}

}  // namespace monsoon::roofline
