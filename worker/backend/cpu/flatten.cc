#include <algorithm>

#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {
namespace {

class Flatten : public CpuLayer {
 public:
  explicit Flatten(const LayerArguments& arguments) {
    Context& context = arguments.context;
    const Port& input = arguments.input;
    AllocateOutput(arguments, MatrixDesc(context.examples(), Extent{input.extent.size()}),
                   Extent{input.extent.size()});
    if (!input.extent.is_image) {
      // A sequence, or what others take too: the same floats in the same order.
      input_ = input;
      floats_ = context.examples() * input.extent.size();
      return;
    }
    value_ = PackedTensor(context, input.value);
    has_diff_ = static_cast<bool>(input.diff);
    if (has_diff_) {
      diff_ = PackedTensor(context, input.diff);
    }
  }

  void Forward(const StepKey* key) override {
    if (floats_ > 0) {
      std::copy_n(Data(input_.value), floats_, Data(output_.value));
      return;
    }
    value_.Unpack(static_cast<float*>(output_.value.get_data_handle()));
  }

  void Backward(float* gradient) override {
    if (floats_ > 0 && input_.diff) {
      std::copy_n(Data(output_.diff), floats_, Data(input_.diff));
    }
    if (has_diff_) {
      diff_.Pack(static_cast<const float*>(output_.diff.get_data_handle()));
    }
  }

 private:
  Port input_;
  size_t floats_ = 0;  // that are copied; 0: an image is reordered
  bool has_diff_ = false;
  PackedTensor value_;
  PackedTensor diff_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeFlatten(const LayerArguments& arguments) {
  return std::make_unique<Flatten>(arguments);
}

}  // namespace monsoon::cpu
