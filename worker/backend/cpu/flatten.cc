#include "worker/backend/cpu/flatten.h"

#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {
namespace {

class Flatten : public CpuLayer {
 public:
  explicit Flatten(const LayerArguments& arguments) {
    Context& context = arguments.context;
    const Port& input = arguments.input;
    AllocateOutput(context, MatrixDesc(context.examples(), input.extent.size()),
                   Extent{input.extent.size()});
    value_ = PackedTensor(context, input.value);
    has_diff_ = static_cast<bool>(input.diff);
    if (has_diff_) {
      diff_ = PackedTensor(context, input.diff);
    }
  }

  void Forward(const StepKey* key) override {
    value_.Unpack(static_cast<float*>(output_.value.get_data_handle()));
  }

  void Backward(float* gradient) override {
    if (has_diff_) {
      diff_.Pack(static_cast<const float*>(output_.diff.get_data_handle()));
    }
  }

 private:
  bool has_diff_ = false;
  PackedTensor value_;
  PackedTensor diff_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeFlatten(const LayerArguments& arguments) {
  return std::make_unique<Flatten>(arguments);
}

}  // namespace monsoon::cpu
