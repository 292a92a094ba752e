// Networks, data and the expected results of the CUDA tests, in plain C++:
// the reference backend's layers, without Abseil and protobuf.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/reference/layer.h"
#include "worker/nn/layer_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::cuda::testing {

// Layers whose shapes and offsets are filled in as they are added, each behind the one before
// unless At or Join says what it takes.
class TestNetwork {
 public:
  explicit TestNetwork(Extent input) : input_(input), taken_{0} {}

  // What the next layer takes: 0 is the sample, i + 1 the output of layer i.
  TestNetwork& At(ValueIndex value);
  // Of kind add, multiply or concat.
  TestNetwork& Join(LayerKind kind, std::vector<ValueIndex> values);

  TestNetwork& Dense(uint64_t units, bool bias = true);
  TestNetwork& Conv2d(uint64_t filters, uint64_t kernel, uint64_t stride = 1, uint64_t padding = 0,
                      bool bias = true);
  TestNetwork& AveragePool(uint64_t window, uint64_t stride = 0);
  TestNetwork& MaxPool(uint64_t window, uint64_t stride = 0);
  TestNetwork& Relu() { return Simple(LayerKind::kRelu, "relu"); }
  TestNetwork& Sigmoid() { return Simple(LayerKind::kSigmoid, "sigmoid"); }
  TestNetwork& Tanh() { return Simple(LayerKind::kTanh, "tanh"); }
  TestNetwork& Gelu() { return Simple(LayerKind::kGelu, "gelu"); }
  TestNetwork& Dropout(double rate);
  TestNetwork& Flatten();
  TestNetwork& Rescale(double scale, double offset);
  TestNetwork& GlobalAveragePool();
  TestNetwork& BatchNorm(bool scale = true);
  TestNetwork& LayerNorm(bool shift = true);
  TestNetwork& Embedding(uint64_t rows, uint64_t columns);
  TestNetwork& PositionEmbedding();
  TestNetwork& Lstm(uint64_t units, bool sequences, bool bidirectional = false);
  TestNetwork& SelfAttention(uint64_t heads, bool causal, bool bias = true);
  TestNetwork& LocallyConnected2d(uint64_t filters, uint64_t kernel, uint64_t stride = 1,
                                  uint64_t padding = 0, bool bias = true);
  TestNetwork& LocalContrastNorm(uint64_t window, bool subtractive = true, bool divisive = true);
  TestNetwork& Augment(uint64_t shift, bool flip, uint64_t crop = 0);
  // With the weight of the layer whose output is `value`.
  TestNetwork& DenseTied(ValueIndex value);

  ValueIndex last() const { return static_cast<ValueIndex>(layers_.size()); }
  EngineModel model() const;
  const std::vector<LayerPlan>& layers() const { return layers_; }
  uint64_t parameter_floats() const { return floats_; }
  uint64_t input() const { return layers_.front().input.size(); }
  uint64_t classes() const { return layers_.back().output.features(); }
  uint64_t steps() const { return layers_.back().output.steps; }

  // U(-limit, limit) with limit = scale / sqrt(fan in); 0 between tensors.
  std::vector<float> Parameters(uint64_t seed, double scale = 1.0) const;

 private:
  LayerPlan& Add(LayerKind kind, const std::string& name, Extent output);
  TestNetwork& Simple(LayerKind kind, const std::string& name);
  TestNetwork& Pool(LayerKind kind, const std::string& name, uint64_t window, uint64_t stride);
  // A new tensor of the last layer.
  TensorSlot Place(uint64_t size);
  Extent ExtentOf(ValueIndex value) const;

  std::vector<LayerPlan> layers_;
  Extent input_;
  std::vector<ValueIndex> taken_;  // by the next layer
  uint64_t floats_ = 0;
};

// The models of configs/model.
TestNetwork LeNet();
TestNetwork Mlp();

// A small network for images of CIFAR-10's size: 3x3 convolutions of 32, 64 and 64 filters.
TestNetwork Cifar();

// The acoustic model of Dean et al. 2012, figure 4: four hidden layers of 2560 units; 11
// frames of 40 values in, 8192 states out.
TestNetwork Speech();

// Samples from N(0, 1) and uniform labels.
struct TestData {
  TestData(const TestNetwork& network, uint64_t examples, uint64_t seed);
  // `count` samples from `first` on.
  Samples Part(uint64_t first, uint64_t count) const;
  Samples All() const { return Part(0, labels.size() / steps); }

  uint64_t values;  // per sample
  uint64_t steps;
  std::vector<float> inputs;
  std::vector<uint32_t> labels;
};

// The same network in double.
class Oracle {
 public:
  explicit Oracle(const TestNetwork& network);

  struct Result {
    double loss_sum = 0;
    double correct = 0;
    std::vector<double> gradient;  // of the mean loss; of the flat vector
  };
  // Null key: evaluation, without a gradient.
  Result Run(std::span<const double> parameters, const Samples& samples, const StepKey* key);

 private:
  EngineModel model_;
  std::vector<std::unique_ptr<reference::ReferenceLayer>> layers_;
};

}  // namespace monsoon::cuda::testing
