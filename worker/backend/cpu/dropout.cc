
#include <cstring>

#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/packed_tensor.h"
#include "worker/nn/dropout_mask.h"

namespace monsoon::cpu {
namespace {

class Dropout : public CpuLayer {
 public:
  explicit Dropout(const LayerArguments& arguments)
      : input_(arguments.input), index_(arguments.plan.index), rate_(arguments.plan.dropout_rate) {
    Context& context = arguments.context;
    const dnnl::memory::desc desc = input_.value.get_desc();
    AllocateOutput(arguments, desc, input_.extent);
    floats_ = desc.get_size() / sizeof(float);
    if (context.training()) {
      mask_ = AlignedFloats::NanFilled(context.examples() * input_.extent.size());
      packed_mask_ = PackedTensor(context, desc);
    }
  }

  void Forward(const StepKey* key) override {
    const float* in = Data(input_.value);
    float* out = Data(output_.value);
    if (key == nullptr) {
      std::memcpy(out, in, floats_ * sizeof(float));
      return;
    }
    FillDropoutMask(*key, index_, rate_, mask_.span());
    packed_mask_.Pack(mask_.data());
    Multiply(in, out);
  }

  void Backward(float* gradient) override {
    if (input_.diff) {
      Multiply(Data(output_.diff), Data(input_.diff));
    }
  }

 private:
  void Multiply(const float* in, float* out) const {
    const float* mask = Data(packed_mask_.packed());
    for (size_t i = 0; i < floats_; ++i) {
      out[i] = in[i] * mask[i];
    }
  }

  Port input_;
  uint32_t index_;
  double rate_;
  size_t floats_ = 0;
  AlignedFloats mask_;  // in logical order
  PackedTensor packed_mask_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeDropout(const LayerArguments& arguments) {
  return std::make_unique<Dropout>(arguments);
}

}  // namespace monsoon::cpu
