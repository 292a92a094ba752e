#include <algorithm>

#include "common/simd/simd_level.h"
#include "worker/backend/cpu/image_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// Rows whose sum is in float by itself, so that a large image loses no digits.
constexpr size_t kBlockRows = 64;

// Of pixels, which lie as rows of channels, or of steps.
class GlobalAveragePool : public CpuLayer {
 public:
  explicit GlobalAveragePool(const LayerArguments& arguments)
      : input_(arguments.input),
        examples_(arguments.context.examples()),
        parts_(std::min(examples_, static_cast<size_t>(arguments.threads))),
        channels_(arguments.plan.input.channels),
        rows_(arguments.plan.input.size() / channels_),
        block_(parts_ * channels_),
        loops_(ActiveLoops(simd_baseline::kColumnLoops, simd_avx2::kColumnLoops,
                           simd_avx512::kColumnLoops)) {
    AllocateOutput(arguments, MatrixDesc(examples_, arguments.plan.output), arguments.plan.output);
  }

  void Forward(const StepKey* /*key*/) override {
    ForEachExample([&](size_t part, size_t n) {
      const float* const in = Data(input_.value) + n * rows_ * channels_;
      float* const out = Data(output_.value) + n * channels_;
      float* const block = block_.data() + part * channels_;
      std::fill_n(out, channels_, 0.0f);
      for (size_t row = 0; row < rows_; row += kBlockRows) {
        std::fill_n(block, channels_, 0.0f);
        loops_.add(std::min(kBlockRows, rows_ - row), channels_, in + row * channels_, block);
        loops_.add(1, channels_, block, out);
      }
      for (size_t c = 0; c < channels_; ++c) {
        out[c] /= static_cast<float>(rows_);
      }
    });
  }

  void Backward(float* /*gradient*/) override {
    if (!input_.diff) {
      return;
    }
    ForEachExample([&](size_t /*part*/, size_t n) {
      float* const out_diff = Data(output_.diff) + n * channels_;
      float* const in_diff = Data(input_.diff) + n * rows_ * channels_;
      for (size_t c = 0; c < channels_; ++c) {
        out_diff[c] /= static_cast<float>(rows_);
      }
      for (size_t row = 0; row < rows_; ++row) {
        std::copy_n(out_diff, channels_, in_diff + row * channels_);
      }
    });
  }

 private:
  // run(part, n)
  template <typename Run>
  void ForEachExample(const Run& run) {
    ForEachPart(parts_, [&](size_t part) {
      for (size_t n = examples_ * part / parts_; n < examples_ * (part + 1) / parts_; ++n) {
        run(part, n);
      }
    });
  }

  const Port input_;
  const size_t examples_;
  const size_t parts_;
  const size_t channels_;
  const size_t rows_;
  std::vector<float> block_;
  const ColumnLoops& loops_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeGlobalAveragePool(const LayerArguments& arguments) {
  return std::make_unique<GlobalAveragePool>(arguments);
}

}  // namespace monsoon::cpu
