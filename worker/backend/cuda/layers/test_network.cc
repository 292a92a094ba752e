#include "worker/backend/cuda/layers/test_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "common/base/random.h"
#include "worker/backend/reference/layer.h"
#include "worker/backend/reference/loss.h"

namespace monsoon::cuda::testing {
namespace {

// Of a tensor in the flat vector, as in ParameterLayout.
constexpr uint64_t kAlignment = 16;

}  // namespace

LayerPlan& TestNetwork::Add(LayerKind kind, const std::string& name, Extent output) {
  LayerPlan plan;
  plan.kind = kind;
  plan.index = static_cast<uint32_t>(layers_.size());
  plan.name = name + std::to_string(plan.index);
  plan.inputs = taken_;
  for (const ValueIndex value : taken_) {
    plan.input_extents.push_back(ExtentOf(value));
  }
  plan.input = plan.input_extents.front();
  plan.output = output;
  plan.output.is_image = output.height > 1 || output.width > 1;
  layers_.push_back(plan);
  taken_ = {last()};
  return layers_.back();
}

Extent TestNetwork::ExtentOf(ValueIndex value) const {
  return value == 0 ? input_ : layers_[value - 1].output;
}

TestNetwork& TestNetwork::At(ValueIndex value) {
  taken_ = {value};
  return *this;
}

TestNetwork& TestNetwork::Join(LayerKind kind, std::vector<ValueIndex> values) {
  taken_ = std::move(values);
  Extent output = ExtentOf(taken_.front());
  for (size_t k = 1; k < taken_.size() && kind == LayerKind::kConcat; ++k) {
    output.channels += ExtentOf(taken_[k]).channels;
  }
  Add(kind, Name(kind), output);
  return *this;
}

EngineModel TestNetwork::model() const {
  EngineModel model{.layers = layers_, .parameter_floats = floats_};
  model.loss.outputs = classes();
  model.loss.steps = steps();
  model.loss.classes = classes();
  return model;
}

TensorSlot TestNetwork::Place(uint64_t size) {
  const TensorSlot slot{floats_, size};
  floats_ = (floats_ + size + kAlignment - 1) / kAlignment * kAlignment;
  layers_.back().tensors.push_back(slot);
  return slot;
}

TestNetwork& TestNetwork::Dense(uint64_t units, bool bias) {
  Extent output = ExtentOf(taken_.front());
  const uint64_t inputs = output.features();
  output.channels = units;
  LayerPlan& plan = Add(LayerKind::kDense, "dense", output);
  plan.weight = Place(units * inputs);
  plan.bias = bias ? Place(units) : TensorSlot{};
  return *this;
}

TestNetwork& TestNetwork::Conv2d(uint64_t filters, uint64_t kernel, uint64_t stride,
                                 uint64_t padding, bool bias) {
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan = Add(LayerKind::kConv2d, "conv",
                        Extent{filters, (in.height + 2 * padding - kernel) / stride + 1,
                               (in.width + 2 * padding - kernel) / stride + 1});
  plan.window = kernel;
  plan.stride = stride;
  plan.padding = padding;
  plan.weight = Place(filters * in.channels * kernel * kernel);
  plan.bias = bias ? Place(filters) : TensorSlot{};
  return *this;
}

TestNetwork& TestNetwork::Pool(LayerKind kind, const std::string& name, uint64_t window,
                               uint64_t stride) {
  stride = stride == 0 ? window : stride;
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan =
      Add(kind, name,
          Extent{in.channels, (in.height - window) / stride + 1, (in.width - window) / stride + 1});
  plan.window = window;
  plan.stride = stride;
  return *this;
}

TestNetwork& TestNetwork::AveragePool(uint64_t window, uint64_t stride) {
  return Pool(LayerKind::kAveragePool2d, "average_pool", window, stride);
}

TestNetwork& TestNetwork::MaxPool(uint64_t window, uint64_t stride) {
  return Pool(LayerKind::kMaxPool2d, "max_pool", window, stride);
}

TestNetwork& TestNetwork::Simple(LayerKind kind, const std::string& name) {
  Add(kind, name, ExtentOf(taken_.front()));
  return *this;
}

TestNetwork& TestNetwork::Dropout(double rate) {
  Add(LayerKind::kDropout, "dropout", ExtentOf(taken_.front())).dropout_rate = rate;
  return *this;
}

TestNetwork& TestNetwork::Flatten() {
  Add(LayerKind::kFlatten, "flatten", Extent{ExtentOf(taken_.front()).size()});
  return *this;
}

TestNetwork& TestNetwork::Rescale(double scale, double offset) {
  LayerPlan& plan = Add(LayerKind::kRescale, "rescale", ExtentOf(taken_.front()));
  plan.scale = scale;
  plan.offset = offset;
  return *this;
}

TestNetwork& TestNetwork::GlobalAveragePool() {
  Add(LayerKind::kGlobalAveragePool, "global_pool", Extent{ExtentOf(taken_.front()).channels});
  return *this;
}

TestNetwork& TestNetwork::BatchNorm(bool scale) {
  LayerPlan& plan = Add(LayerKind::kBatchNorm, "batch_norm", ExtentOf(taken_.front()));
  plan.epsilon = 1e-5;
  plan.momentum = 0.1;
  plan.weight = scale ? Place(plan.input.channels) : TensorSlot{};
  plan.bias = scale ? Place(plan.input.channels) : TensorSlot{};
  Place(plan.input.channels);
  Place(plan.input.channels);
  return *this;
}

TestNetwork& TestNetwork::LayerNorm(bool shift) {
  LayerPlan& plan = Add(LayerKind::kLayerNorm, "layer_norm", ExtentOf(taken_.front()));
  plan.epsilon = 1e-5;
  plan.weight = Place(plan.input.features());
  plan.bias = shift ? Place(plan.input.features()) : TensorSlot{};
  return *this;
}

TestNetwork& TestNetwork::Embedding(uint64_t rows, uint64_t columns) {
  const uint64_t steps = ExtentOf(taken_.front()).size();
  LayerPlan& plan =
      Add(LayerKind::kEmbedding, "embedding", Extent{.channels = columns, .steps = steps});
  plan.weight = Place(rows * columns);
  return *this;
}

TestNetwork& TestNetwork::PositionEmbedding() {
  LayerPlan& plan = Add(LayerKind::kPositionEmbedding, "position", ExtentOf(taken_.front()));
  plan.weight = Place(plan.input.size());
  return *this;
}

TestNetwork& TestNetwork::Lstm(uint64_t units, bool sequences, bool bidirectional) {
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan = Add(LayerKind::kLstm, "lstm",
                        Extent{.channels = units * (bidirectional ? 2 : 1),
                               .steps = sequences ? in.steps : 1});
  plan.units = units;
  plan.sequences = sequences;
  plan.bidirectional = bidirectional;
  for (int direction = 0; direction < (bidirectional ? 2 : 1); ++direction) {
    Place(4 * units * in.features());
    Place(4 * units * units);
    Place(4 * units);
  }
  plan.weight = plan.tensors[0];
  plan.bias = plan.tensors[2];
  return *this;
}

TestNetwork& TestNetwork::SelfAttention(uint64_t heads, bool causal, bool bias) {
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan = Add(LayerKind::kSelfAttention, "attention", in);
  plan.heads = heads;
  plan.causal = causal;
  for (const uint64_t units : {3 * in.features(), in.features()}) {
    Place(units * in.features());
    if (bias) {
      Place(units);
    }
  }
  return *this;
}

TestNetwork& TestNetwork::LocallyConnected2d(uint64_t filters, uint64_t kernel, uint64_t stride,
                                             uint64_t padding, bool bias) {
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan = Add(LayerKind::kLocallyConnected2d, "local",
                        Extent{filters, (in.height + 2 * padding - kernel) / stride + 1,
                               (in.width + 2 * padding - kernel) / stride + 1});
  plan.window = kernel;
  plan.stride = stride;
  plan.padding = padding;
  plan.weight = Place(plan.output.size() * in.channels * kernel * kernel);
  plan.bias = bias ? Place(plan.output.size()) : TensorSlot{};
  return *this;
}

TestNetwork& TestNetwork::LocalContrastNorm(uint64_t window, bool subtractive, bool divisive) {
  LayerPlan& plan = Add(LayerKind::kLocalContrastNorm, "contrast", ExtentOf(taken_.front()));
  plan.window = window;
  plan.epsilon = 1e-4;
  plan.subtractive = subtractive;
  plan.divisive = divisive;
  return *this;
}

TestNetwork& TestNetwork::Augment(uint64_t shift, bool flip, uint64_t crop) {
  const Extent in = ExtentOf(taken_.front());
  LayerPlan& plan = Add(LayerKind::kAugment, "augment",
                        crop == 0 ? in : Extent{in.channels, crop, crop});
  plan.shift = shift;
  plan.flip = flip;
  plan.crop = crop;
  return *this;
}

TestNetwork& TestNetwork::DenseTied(ValueIndex value) {
  TensorSlot& shared = layers_[value - 1].weight;
  const TensorSlot weight = shared;
  shared.shared = layers_[value - 1].tensors.front().shared = true;
  Extent output = ExtentOf(taken_.front());
  output.channels = weight.size / output.features();
  LayerPlan& plan = Add(LayerKind::kDense, "dense", output);
  plan.weight = weight;
  plan.tensors.push_back(weight);
  return *this;
}

std::vector<float> TestNetwork::Parameters(uint64_t seed, double scale) const {
  std::vector<float> parameters(floats_);
  const PhiloxStream stream(seed, StreamKind::kTest, 2);
  for (const LayerPlan& plan : layers_) {
    if (plan.tensors.empty()) {
      continue;
    }
    const double fan_in = static_cast<double>(plan.tensors.front().size) /
                          static_cast<double>(plan.output.channels);
    for (const TensorSlot& slot : plan.tensors) {
      for (uint64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        const double uniform = 2.0 * stream.Uniform(i) - 1.0;
        parameters[i] = static_cast<float>(uniform * scale / std::sqrt(fan_in));
        if (plan.kind == LayerKind::kBatchNorm && slot.offset == plan.tensors.back().offset) {
          parameters[i] = 0.5f + static_cast<float>(stream.Uniform(i));  // a variance
        }
      }
    }
  }
  return parameters;
}

TestNetwork LeNet() {
  return TestNetwork(Extent{1, 28, 28})
      .Conv2d(20, 3)
      .Relu()
      .AveragePool(2)
      .Conv2d(50, 5)
      .Relu()
      .AveragePool(2)
      .Flatten()
      .Dense(128)
      .Relu()
      .Dense(10);
}

TestNetwork Mlp() { return TestNetwork(Extent{784}).Dense(128).Relu().Dense(10); }

TestNetwork Cifar() {
  return TestNetwork(Extent{3, 32, 32})
      .Conv2d(32, 3, 1, 1)
      .Relu()
      .MaxPool(2)
      .Conv2d(64, 3, 1, 1)
      .Relu()
      .MaxPool(2)
      .Conv2d(64, 3, 1, 1)
      .Relu()
      .Flatten()
      .Dense(64)
      .Relu()
      .Dense(10);
}

TestNetwork Speech() {
  TestNetwork network(Extent{440});
  for (int layer = 0; layer < 4; ++layer) {
    network.Dense(2560).Sigmoid();
  }
  return network.Dense(8192);
}

TestData::TestData(const TestNetwork& network, uint64_t examples, uint64_t seed)
    : values(network.input()),
      steps(network.steps()),
      inputs(examples * values),
      labels(examples * steps) {
  const PhiloxStream normal(seed, StreamKind::kTest);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = normal.Normal(i);
  }
  const LayerPlan& first = network.layers().front();
  if (first.kind == LayerKind::kEmbedding) {
    const uint64_t rows = first.weight.size / first.output.channels;
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<float>(normal.Below(i, static_cast<uint32_t>(rows)));
    }
  }
  const PhiloxStream below(seed, StreamKind::kTest, 1);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = below.Below(i, static_cast<uint32_t>(network.classes()));
  }
}

Samples TestData::Part(uint64_t first, uint64_t count) const {
  return Samples{inputs.data() + first * values, labels.data() + first * steps, count};
}

Oracle::Oracle(const TestNetwork& network) : model_(network.model()) {
  for (const LayerPlan& plan : model_.layers) {
    layers_.push_back(reference::MakeLayer(plan));
  }
}

Oracle::Result Oracle::Run(std::span<const double> parameters, const Samples& samples,
                           const StepKey* key) {
  const reference::Pass pass{samples.examples, key, parameters};
  std::vector<std::vector<double>> values(layers_.size() + 1);
  values[0].assign(samples.inputs, samples.inputs + samples.examples * model_.input());
  const auto inputs_of = [&](size_t layer) {
    reference::ReferenceLayer::Values inputs;
    for (const ValueIndex input : model_.layers[layer].inputs) {
      inputs.push_back(values[input]);
    }
    return inputs;
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    values[i + 1].resize(samples.examples * model_.layers[i].output.size());
    layers_[i]->ForwardJoined(pass, inputs_of(i), values[i + 1]);
  }
  Result result;
  std::vector<double> diff(key == nullptr ? 0 : values.back().size());
  const std::span<const uint32_t> labels(samples.labels, samples.examples * model_.loss.steps);
  const LossTargets targets{.labels = labels, .examples = samples.examples};
  const LossSums sums = reference::ComputeLoss(model_.loss, values.back(), targets, diff);
  result.loss_sum = sums.loss;
  result.correct = sums.correct;
  if (key == nullptr) {
    return result;
  }
  result.gradient.resize(model_.parameter_floats);
  std::vector<std::vector<double>> diffs(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    diffs[i].resize(values[i].size());
  }
  diffs.back() = std::move(diff);
  for (size_t i = layers_.size(); i-- > 0;) {
    std::vector<std::vector<double>> parts;
    for (const Extent& input : model_.layers[i].input_extents) {
      parts.emplace_back(samples.examples * input.size());
    }
    layers_[i]->BackwardJoined(pass, inputs_of(i), values[i + 1], diffs[i + 1],
                               reference::ReferenceLayer::Diffs(parts.begin(), parts.end()),
                               result.gradient);
    for (size_t j = 0; j < parts.size(); ++j) {
      std::vector<double>& sum = diffs[model_.layers[i].inputs[j]];
      std::transform(sum.begin(), sum.end(), parts[j].begin(), sum.begin(), std::plus<>());
    }
  }
  return result;
}

}  // namespace monsoon::cuda::testing
