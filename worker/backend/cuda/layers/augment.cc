#include "worker/backend/cuda/kernels/augment_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// Draws in training only, and not in batch jobs: there a crop is the middle.
class Augment : public DeviceLayer {
 public:
  explicit Augment(const LayerPlan& plan)
      : shape_(ToImageShape(plan)),
        layer_(plan.index),
        shift_(Narrow(plan.shift)),
        flip_(plan.flip),
        crops_(plan.crop != 0) {}

  bool PassesOn(PassKind kind) const override { return kind != PassKind::kTrain && !crops_; }

  uint64_t KeptBytes(uint64_t examples) const override { return examples * sizeof(Placement); }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    const auto placements = reinterpret_cast<Placement*>(pass.kept);
    DrawPlacements(pass.stream,
                   DrawPlacement{shape_, layer_, shift_, flip_, pass.kind == PassKind::kTrain,
                                 pass.control, placements},
                   pass.examples);
    AugmentImages(
        pass.stream,
        AugmentForward{shape_, Pixels(shape_.out_height, shape_.out_width), placements, in, out},
        pass.examples * shape_.out_size());
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (in_diff != nullptr) {
      AugmentGradient(pass.stream,
                      AugmentBackward{shape_, Pixels(shape_.height, shape_.width),
                                      reinterpret_cast<const Placement*>(pass.kept), out_diff,
                                      in_diff},
                      pass.examples * shape_.in_size());
    }
  }

 private:
  PixelOf Pixels(uint32_t height, uint32_t width) const {
    return {Divisor(width), Divisor(height), Divisor(shape_.channels)};
  }

  ImageShape shape_;
  uint32_t layer_;
  uint32_t shift_;
  bool flip_;
  bool crops_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeAugment(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<Augment>(plan);
}

}  // namespace monsoon::cuda
