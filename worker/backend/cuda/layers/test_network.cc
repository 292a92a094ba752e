#include "worker/backend/cuda/layers/test_network.h"

#include <cmath>

#include "common/base/random.h"
#include "worker/backend/reference/layer.h"
#include "worker/backend/reference/softmax_cross_entropy.h"

namespace monsoon::cuda::testing {
namespace {

// Of a tensor in the flat vector, as in ParameterLayout.
constexpr uint64_t kAlignment = 16;

std::unique_ptr<reference::ReferenceLayer> MakeReference(const LayerPlan& plan) {
  switch (plan.kind) {
    case LayerKind::kDense:
      return reference::MakeDense(plan);
    case LayerKind::kConv2d:
      return reference::MakeConv2d(plan);
    case LayerKind::kAveragePool2d:
    case LayerKind::kMaxPool2d:
      return reference::MakePool2d(plan);
    case LayerKind::kDropout:
      return reference::MakeDropout(plan);
    case LayerKind::kFlatten:
      return nullptr;
    default:
      return reference::MakeActivation(plan);
  }
}

}  // namespace

LayerPlan& TestNetwork::Add(LayerKind kind, const std::string& name, Extent output) {
  LayerPlan plan;
  plan.kind = kind;
  plan.index = static_cast<uint32_t>(layers_.size());
  plan.name = name + std::to_string(plan.index);
  plan.input = output_;
  plan.output = output;
  output_ = output;
  layers_.push_back(plan);
  return layers_.back();
}

TensorSlot TestNetwork::Place(uint64_t size) {
  const TensorSlot slot{floats_, size};
  floats_ = (floats_ + size + kAlignment - 1) / kAlignment * kAlignment;
  return slot;
}

TestNetwork& TestNetwork::Dense(uint64_t units, bool bias) {
  const uint64_t inputs = output_.size();
  LayerPlan& plan = Add(LayerKind::kDense, "dense", Extent{units});
  plan.weight = Place(units * inputs);
  plan.bias = bias ? Place(units) : TensorSlot{};
  return *this;
}

TestNetwork& TestNetwork::Conv2d(uint64_t filters, uint64_t kernel, uint64_t stride,
                                 uint64_t padding, bool bias) {
  const Extent in = output_;
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
  const Extent in = output_;
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
  Add(kind, name, output_);
  return *this;
}

TestNetwork& TestNetwork::Dropout(double rate) {
  Add(LayerKind::kDropout, "dropout", output_).dropout_rate = rate;
  return *this;
}

TestNetwork& TestNetwork::Flatten() {
  Add(LayerKind::kFlatten, "flatten", Extent{output_.size()});
  return *this;
}

std::vector<float> TestNetwork::Parameters(uint64_t seed, double scale) const {
  std::vector<float> parameters(floats_);
  const PhiloxStream stream(seed, StreamKind::kTest, 2);
  for (const LayerPlan& plan : layers_) {
    if (plan.weight.size == 0) {
      continue;
    }
    const double fan_in =
        static_cast<double>(plan.weight.size) / static_cast<double>(plan.output.channels);
    for (const TensorSlot& slot : {plan.weight, plan.bias}) {
      for (uint64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        const double uniform = 2.0 * stream.Uniform(i) - 1.0;
        parameters[i] = static_cast<float>(uniform * scale / std::sqrt(fan_in));
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
    : values(network.input()), inputs(examples * values), labels(examples) {
  const PhiloxStream normal(seed, StreamKind::kTest);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = normal.Normal(i);
  }
  const PhiloxStream below(seed, StreamKind::kTest, 1);
  for (size_t i = 0; i < examples; ++i) {
    labels[i] = below.Below(i, static_cast<uint32_t>(network.classes()));
  }
}

Samples TestData::Part(uint64_t first, uint64_t count) const {
  return Samples{inputs.data() + first * values, labels.data() + first, count};
}

Oracle::Oracle(const TestNetwork& network)
    : plans_(network.layers()), floats_(network.parameter_floats()) {
  for (const LayerPlan& plan : plans_) {
    layers_.push_back(MakeReference(plan));
  }
}

Oracle::Result Oracle::Run(std::span<const double> parameters, const Samples& samples,
                           const StepKey* key) {
  const reference::Pass pass{samples.examples, key, parameters};
  std::vector<std::vector<double>> values(layers_.size() + 1);
  values[0].assign(samples.inputs, samples.inputs + samples.examples * plans_[0].input.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i] == nullptr) {
      values[i + 1] = values[i];
      continue;
    }
    values[i + 1].resize(samples.examples * plans_[i].output.size());
    layers_[i]->Forward(pass, values[i], values[i + 1]);
  }
  Result result;
  std::vector<double> diff(key == nullptr ? 0 : values.back().size());
  const LossSums sums = reference::SoftmaxCrossEntropy(
      values.back(), std::span(samples.labels, samples.examples), diff);
  result.loss_sum = sums.loss;
  result.correct = sums.correct;
  if (key == nullptr) {
    return result;
  }
  result.gradient.resize(floats_);
  for (size_t i = layers_.size(); i-- > 0;) {
    if (layers_[i] != nullptr) {
      std::vector<double> in_diff(values[i].size());
      layers_[i]->Backward(pass, values[i], values[i + 1], diff, in_diff, result.gradient);
      diff = std::move(in_diff);
    }
  }
  return result;
}

}  // namespace monsoon::cuda::testing
