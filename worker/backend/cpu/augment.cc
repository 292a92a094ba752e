#include <algorithm>
#include <vector>

#include "worker/backend/cpu/layer.h"
#include "worker/nn/augmentation.h"

namespace monsoon::cpu {
namespace {

class Augment : public CpuLayer {
 public:
  explicit Augment(const LayerArguments& arguments)
      : input_(arguments.input), plan_(arguments.plan), drawn_(arguments.context.examples()) {
    AllocateOutput(arguments, ChannelsLastDesc(drawn_.size(), plan_.output), plan_.output);
  }

  void Forward(const StepKey* key) override {
    for (size_t n = 0; n < drawn_.size(); ++n) {
      drawn_[n] = DrawAugmentation(plan_, key, n);
    }
    std::fill_n(Data(output_.value), drawn_.size() * plan_.output.size(), 0.0f);
    CopyRows(Data(input_.value), Data(output_.value), /*back=*/false);
  }

  // Each pixel of the input has gone to one of the output at most.
  void Backward(float* /*gradient*/) override {
    if (input_.diff) {
      std::fill_n(Data(input_.diff), drawn_.size() * plan_.input.size(), 0.0f);
      CopyRows(Data(input_.diff), Data(output_.diff), /*back=*/true);
    }
  }

 private:
  // Pixels of `in` to where they belong in `out`, or `back`.
  void CopyRows(float* in, float* out, bool back) const {
    const auto channels = static_cast<int64_t>(plan_.input.channels);
    const auto width = static_cast<int64_t>(plan_.output.width);
    const auto in_height = static_cast<int64_t>(plan_.input.height);
    const auto in_width = static_cast<int64_t>(plan_.input.width);
    for (const Augmentation& drawn : drawn_) {
      // Columns of the input that the image has.
      const int64_t first = std::max<int64_t>(0, drawn.column);
      const int64_t end = std::min(in_width, drawn.column + width);
      for (uint64_t y = 0; y < plan_.output.height; ++y, out += width * channels) {
        const int64_t row = static_cast<int64_t>(y) + drawn.row;
        if (row < 0 || row >= in_height || first >= end) {
          continue;
        }
        float* const from = in + row * in_width * channels;
        if (drawn.flip) {
          for (int64_t x = first; x < end; ++x) {
            Copy(from + x * channels, out + (width - 1 - (x - drawn.column)) * channels, channels,
                 back);
          }
        } else {
          Copy(from + first * channels, out + (first - drawn.column) * channels,
               (end - first) * channels, back);
        }
      }
      in += in_height * in_width * channels;
    }
  }

  static void Copy(float* in, float* out, int64_t floats, bool back) {
    std::copy_n(back ? out : in, floats, back ? in : out);
  }

  const Port input_;
  const LayerPlan plan_;
  std::vector<Augmentation> drawn_;  // of each sample, by the last Forward
};

}  // namespace

std::unique_ptr<CpuLayer> MakeAugment(const LayerArguments& arguments) {
  return std::make_unique<Augment>(arguments);
}

}  // namespace monsoon::cpu
