// Add, multiply and concat. Images lie channels last, so that all rows, pixels of images and
// steps of sequences, are joined alike.
#include <algorithm>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {
namespace {

class Join : public CpuLayer {
 public:
  explicit Join(const LayerArguments& arguments)
      : kind_(arguments.plan.kind), inputs_(arguments.inputs) {
    const Extent& extent = arguments.plan.output;
    const size_t examples = arguments.context.examples();
    rows_ = examples * extent.steps * extent.height * extent.width;
    floats_ = examples * extent.size();
    AllocateOutput(
        arguments,
        extent.is_image ? ChannelsLastDesc(examples, extent) : MatrixDesc(examples, extent),
        extent);
  }

  void Forward(const StepKey* /*key*/) override {
    if (kind_ == LayerKind::kConcat) {
      Copy(true);
      return;
    }
    float* const out = Data(output_.value);
    std::copy_n(Data(inputs_[0].value), floats_, out);
    for (size_t k = 1; k < inputs_.size(); ++k) {
      const float* const in = Data(inputs_[k].value);
      if (kind_ == LayerKind::kAdd) {
        for (size_t i = 0; i < floats_; ++i) {
          out[i] += in[i];
        }
      } else {
        Multiply(in, out);
      }
    }
  }

  void Backward(float* /*gradient*/) override {
    if (kind_ == LayerKind::kConcat) {
      Copy(false);
      return;
    }
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!inputs_[k].diff) {
        continue;
      }
      float* const diff = Data(inputs_[k].diff);
      std::copy_n(Data(output_.diff), floats_, diff);
      for (size_t other = 0; other < inputs_.size() && kind_ == LayerKind::kMultiply; ++other) {
        if (other != k) {
          Multiply(Data(inputs_[other].value), diff);
        }
      }
    }
  }

 private:
  void Multiply(const float* in, float* out) const {
    for (size_t i = 0; i < floats_; ++i) {
      out[i] *= in[i];
    }
  }

  // Rows of the inputs to those of the output side by side, or of its gradient to theirs.
  void Copy(bool forward) {
    const size_t width = floats_ / rows_;
    size_t column = 0;
    for (const Port& input : inputs_) {
      const size_t columns = input.extent.channels;
      if (forward || input.diff) {
        float* const one = forward ? Data(input.value) : Data(input.diff);
        float* const all = (forward ? Data(output_.value) : Data(output_.diff)) + column;
        for (size_t row = 0; row < rows_; ++row) {
          const float* const from = forward ? one + row * columns : all + row * width;
          std::copy_n(from, columns, forward ? all + row * width : one + row * columns);
        }
      }
      column += columns;
    }
  }

  const LayerKind kind_;
  const std::vector<Port> inputs_;
  size_t rows_ = 0;
  size_t floats_ = 0;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeJoin(const LayerArguments& arguments) {
  return std::make_unique<Join>(arguments);
}

}  // namespace monsoon::cpu
