// Pooling, activations, rescaling and dropout: a kernel each way, no parameters.
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/image_kernels.h"
#include "worker/backend/cuda/kernels/pointwise_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// A rest at the border that no window covers is cut off.
class Pool2d : public DeviceLayer {
 public:
  explicit Pool2d(const LayerPlan& plan)
      : shape_(ToImageShape(plan)), maximum_(plan.kind == LayerKind::kMaxPool2d) {}

  void Forward(const Pass& pass, const float* in, float* out) const override {
    Pool(pass.stream, PoolForward{shape_, maximum_, in, out}, pass.examples * shape_.out_size());
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    PoolGradient(pass.stream, PoolBackward{shape_, maximum_, in, out_diff, in_diff},
                 pass.examples * shape_.in_size());
  }

 private:
  ImageShape shape_;
  bool maximum_;
};

ActivationKind KindOf(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSigmoid:
      return ActivationKind::kSigmoid;
    case LayerKind::kTanh:
      return ActivationKind::kTanh;
    default:
      return ActivationKind::kRelu;
  }
}

class Activation : public DeviceLayer {
 public:
  explicit Activation(const LayerPlan& plan)
      : kind_(KindOf(plan.kind)), values_(plan.output.size()) {}

  void Forward(const Pass& pass, const float* in, float* out) const override {
    Activate(pass.stream, ActivationForward{kind_, in, out}, pass.examples * values_);
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* out, const float* out_diff,
                float* in_diff) const override {
    ActivateBackward(pass.stream, ActivationBackward{kind_, out, out_diff, in_diff},
                     pass.examples * values_);
  }

 private:
  ActivationKind kind_;
  uint64_t values_;
};

class GeluLayer : public DeviceLayer {
 public:
  explicit GeluLayer(const LayerPlan& plan) : values_(plan.output.size()) {}

  void Forward(const Pass& pass, const float* in, float* out) const override {
    Gelu(pass.stream, GeluForward{in, out}, pass.examples * values_);
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (in_diff != nullptr) {
      GeluGradient(pass.stream, GeluBackward{in, out_diff, in_diff}, pass.examples * values_);
    }
  }

 private:
  uint64_t values_;
};

// y = scale x + offset.
class RescaleLayer : public DeviceLayer {
 public:
  explicit RescaleLayer(const LayerPlan& plan)
      : scale_(static_cast<float>(plan.scale)),
        offset_(static_cast<float>(plan.offset)),
        values_(plan.output.size()) {}

  void Forward(const Pass& pass, const float* in, float* out) const override {
    RescaleValues(pass.stream, Affine{scale_, offset_, in, out}, pass.examples * values_);
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (in_diff != nullptr) {
      RescaleValues(pass.stream, Affine{scale_, 0.0f, out_diff, in_diff}, pass.examples * values_);
    }
  }

 private:
  float scale_;
  float offset_;
  uint64_t values_;
};

// Of images over their pixels, of sequences over their steps.
class GlobalAveragePool : public DeviceLayer {
 public:
  explicit GlobalAveragePool(const LayerPlan& plan)
      : channels_(plan.input.channels),
        count_(Narrow(plan.input.size() / plan.input.channels)),
        inner_(plan.input.is_image ? 1 : Narrow(plan.input.channels)) {}

  void Forward(const Pass& pass, const float* in, float* out) const override {
    AverageMiddle(pass.stream, MiddleMean(count_, inner_, in, out), pass.examples * channels_);
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (in_diff != nullptr) {
      AverageGradient(pass.stream, MiddleMeanBackward(count_, inner_, out_diff, in_diff),
                      pass.examples * channels_ * count_);
    }
  }

 private:
  uint64_t channels_;
  uint32_t count_;
  uint32_t inner_;
};

// In training only.
class Dropout : public DeviceLayer {
 public:
  explicit Dropout(const LayerPlan& plan)
      : layer_{kDropoutStream | plan.index, static_cast<uint64_t>(plan.dropout_rate * 0x1p32),
               static_cast<float>(1.0 / (1.0 - plan.dropout_rate))},
        values_(plan.output.size()) {}

  bool PassesOn(PassKind kind) const override { return kind == PassKind::kEvaluate; }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    Apply(pass, in, out);
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    Apply(pass, out_diff, in_diff);
  }

 private:
  void Apply(const Pass& pass, const float* in, float* out) const {
    DropOut(pass.stream,
            ApplyDropout(layer_, pass.control, pass.sample_keys, static_cast<uint32_t>(values_),
                         pass.examples, in, out),
            pass.examples);
  }

  DropoutLayer layer_;
  uint64_t values_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakePool2d(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<Pool2d>(plan);
}

std::unique_ptr<DeviceLayer> MakeActivation(const LayerPlan& plan, Precision /*precision*/) {
  if (plan.kind == LayerKind::kGelu) {
    return std::make_unique<GeluLayer>(plan);
  }
  return std::make_unique<Activation>(plan);
}

std::unique_ptr<DeviceLayer> MakeDropout(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<Dropout>(plan);
}

std::unique_ptr<DeviceLayer> MakeRescale(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<RescaleLayer>(plan);
}

std::unique_ptr<DeviceLayer> MakeGlobalAveragePool(const LayerPlan& plan,
                                                   Precision /*precision*/) {
  return std::make_unique<GlobalAveragePool>(plan);
}

// Changes no value in logical order.
std::unique_ptr<DeviceLayer> MakeFlatten(const LayerPlan& /*plan*/, Precision /*precision*/) {
  return nullptr;
}

}  // namespace monsoon::cuda
