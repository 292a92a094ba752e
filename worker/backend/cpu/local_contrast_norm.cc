// Local contrast normalisation. The window has the same weights for all channels, so its sums are
// of one plane an image: that of the channels' sums; and it is a Gaussian, so they are taken
// sideways and then up and down.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/simd/simd_level.h"
#include "worker/backend/cpu/image_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// With p a pixel, v(c, p) = x(c, p) - mean(p), s(p)^2 = the window's sum of v^2, and
// y(c, p) = v(c, p) / D(p), D = max(mean of s, s, epsilon).
class LocalContrastNorm : public CpuLayer {
 public:
  explicit LocalContrastNorm(const LayerArguments& arguments)
      : input_(arguments.input),
        plan_(arguments.plan),
        examples_(arguments.context.examples()),
        pixels_(plan_.input.height * plan_.input.width),
        half_(plan_.window / 2),
        parts_(std::min(examples_, static_cast<size_t>(arguments.threads))),
        is_training_(arguments.context.training()),
        loops_(ActiveLoops(simd_baseline::kPixelLoops, simd_avx2::kPixelLoops,
                           simd_avx512::kPixelLoops)) {
    AllocateOutput(arguments, ChannelsLastDesc(examples_, plan_.output), plan_.output);
    const double deviation = static_cast<double>(plan_.window) / 4;
    for (size_t i = 0; i < plan_.window; ++i) {
      const double away = static_cast<double>(i) - static_cast<double>(half_);
      weights_.push_back(static_cast<float>(std::exp(-away * away / (2 * deviation * deviation))));
    }
    const std::vector<double> rows = Inside(plan_.input.height),
                              columns = Inside(plan_.input.width);
    for (const double row : rows) {
      for (const double column : columns) {
        share_.push_back(
            static_cast<float>(1 / (row * column * static_cast<double>(plan_.input.channels))));
      }
    }
    const size_t kept = is_training_ ? examples_ : parts_;
    deviations_.resize(kept * pixels_);
    means_.resize(kept);
    scratch_.resize(parts_ * (3 * pixels_ + plan_.input.width + 2 * half_));
  }

  void Forward(const StepKey* /*key*/) override {
    ForEachExample([&](size_t part, size_t n) {
      const size_t kept = is_training_ ? n : part;
      const Scratch scratch = ScratchOf(part);
      const float* const x = Data(input_.value) + n * plan_.input.size();
      float* const y = Data(output_.value) + n * plan_.input.size();
      const size_t channels = plan_.input.channels;
      std::fill_n(scratch.one, pixels_, 0.0f);
      if (plan_.subtractive) {
        loops_.sum(pixels_, channels, x, scratch.one);
        Blur(scratch, scratch.one);
        Multiply(share_.data(), scratch.one);
      }
      loops_.subtract(pixels_, channels, x, scratch.one, y, scratch.other);
      if (plan_.divisive) {
        means_[kept] = TakeDeviations(scratch, deviations_.data() + kept * pixels_);
        for (size_t p = 0; p < pixels_; ++p) {
          scratch.one[p] = 1 / Divisor(kept, p);
        }
        loops_.scale(pixels_, channels, scratch.one, y);
      }
    });
  }

  void Backward(float* /*gradient*/) override {
    if (!input_.diff) {
      return;
    }
    ForEachExample([&](size_t part, size_t n) {
      const Scratch scratch = ScratchOf(part);
      const size_t channels = plan_.input.channels;
      const float* const y = Data(output_.value) + n * plan_.input.size();
      float* const diff = Data(input_.diff) + n * plan_.input.size();
      std::copy_n(Data(output_.diff) + n * plan_.input.size(), plan_.input.size(), diff);
      if (plan_.divisive) {
        DivisionBackward(n, scratch, y, diff);
      }
      if (plan_.subtractive) {
        loops_.sum(pixels_, channels, diff, scratch.one);
        Multiply(share_.data(), scratch.one);
        Blur(scratch, scratch.one);
        loops_.lower(pixels_, channels, scratch.one, diff);
      }
    });
  }

 private:
  // Planes of one thread, and what `blur` needs.
  struct Scratch {
    float* one;
    float* other;
    float* blur;
  };

  Scratch ScratchOf(size_t part) {
    float* const first = scratch_.data() + part * (scratch_.size() / parts_);
    return {first, first + pixels_, first + 2 * pixels_};
  }

  // What the window has inside, of each place along `extent`.
  std::vector<double> Inside(size_t extent) const {
    std::vector<double> sums(extent, 0.0);
    for (size_t at = 0; at < extent; ++at) {
      for (size_t i = 0; i < plan_.window; ++i) {
        sums[at] += at + i >= half_ && at + i < extent + half_ ? weights_[i] : 0.0;
      }
    }
    return sums;
  }

  // run(part, n)
  template <typename Run>
  void ForEachExample(const Run& run) {
    ForEachPart(parts_, [&](size_t part) {
      for (size_t n = examples_ * part / parts_; n < examples_ * (part + 1) / parts_; ++n) {
        run(part, n);
      }
    });
  }

  void Blur(const Scratch& scratch, float* plane) const {
    loops_.blur(plan_.input.height, plan_.input.width, half_, weights_.data(), plane, scratch.blur,
                plane);
  }

  void Multiply(const float* factors, float* plane) const {
    for (size_t p = 0; p < pixels_; ++p) {
      plane[p] *= factors[p];
    }
  }

  // From the sums of v^2 over the channels, in scratch.other. Returns the mean.
  float TakeDeviations(const Scratch& scratch, float* deviations) const {
    Blur(scratch, scratch.other);
    double sum = 0;
    for (size_t p = 0; p < pixels_; ++p) {
      deviations[p] = std::sqrt(scratch.other[p] * share_[p]);
      sum += deviations[p];
    }
    return static_cast<float>(sum / static_cast<double>(pixels_));
  }

  // NaN stays.
  float Divisor(size_t kept, size_t p) const {
    const float least = std::max(static_cast<float>(plan_.epsilon), means_[kept]);
    const float deviation = deviations_[kept * pixels_ + p];
    return deviation <= least ? least : deviation;
  }

  // From dloss/dy in `diff` to dloss/dv.
  void DivisionBackward(size_t n, const Scratch& scratch, const float* y, float* diff) const {
    loops_.dot(pixels_, plan_.input.channels, diff, y, scratch.one);
    // From -dloss/dD D to dloss/ds, of which the mean's part goes to all.
    const bool is_mean = means_[n] > static_cast<float>(plan_.epsilon);
    double of_mean = 0;
    for (size_t p = 0; p < pixels_; ++p) {
      const float divisor = Divisor(n, p);
      const float slope = -scratch.one[p] / divisor;
      const bool own = divisor == deviations_[n * pixels_ + p] && divisor != means_[n];
      of_mean += own ? 0.0 : slope;
      scratch.one[p] = own ? slope : 0;
    }
    const float share = is_mean ? static_cast<float>(of_mean / static_cast<double>(pixels_)) : 0.0f;
    for (size_t p = 0; p < pixels_; ++p) {
      const float deviation = deviations_[n * pixels_ + p];
      scratch.one[p] = deviation == 0 ? 0 : (scratch.one[p] + share) / deviation * share_[p];
    }
    Blur(scratch, scratch.one);
    for (size_t p = 0; p < pixels_; ++p) {
      const float divisor = Divisor(n, p);
      scratch.one[p] *= divisor;  // of v = y D
      scratch.other[p] = 1 / divisor;
    }
    loops_.combine(pixels_, plan_.input.channels, scratch.other, y, scratch.one, diff);
  }

  const Port input_;
  const LayerPlan plan_;
  const size_t examples_;
  const size_t pixels_;
  const size_t half_;
  const size_t parts_;
  const bool is_training_;
  const PixelLoops& loops_;
  std::vector<float> weights_;     // of the window, along one side
  std::vector<float> share_;       // of each pixel, 1 / (what its window has inside)
  std::vector<float> deviations_;  // s: [n][pixel] in training, else [part][pixel]
  std::vector<float> means_;       // of s
  std::vector<float> scratch_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeLocalContrastNorm(const LayerArguments& arguments) {
  return std::make_unique<LocalContrastNorm>(arguments);
}

}  // namespace monsoon::cpu
