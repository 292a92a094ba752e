#include "worker/backend/cuda/kernels/contrast_kernels.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/backend/cuda/layers/parts.h"

namespace monsoon::cuda {
namespace {

// v = x - its window's mean, or x; y = v / max(mean of s, s, epsilon) with s the root of the
// window's mean of v^2, or v.
class LocalContrastNorm : public DeviceLayer {
 public:
  explicit LocalContrastNorm(const LayerPlan& plan)
      : channels_(plan.input.channels),
        height_(plan.input.height),
        width_(plan.input.width),
        half_(Narrow(plan.window / 2)),
        epsilon_(static_cast<float>(plan.epsilon)),
        subtractive_(plan.subtractive),
        divisive_(plan.divisive) {
    const float deviation = static_cast<float>(plan.window) / 4.0f;
    rate_ = 0.5f / (deviation * deviation);
  }

  uint64_t KeptBytes(uint64_t examples) const override { return KeptOf(examples).bytes; }
  uint64_t WorkspaceBytes(uint64_t examples) const override { return WorkOf(examples).bytes; }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    const Kept kept = KeptOf(pass.examples);
    const Work work = WorkOf(pass.examples);
    float* const v = !subtractive_ ? nullptr : divisive_ ? AtKept(pass, kept.v) : out;
    if (subtractive_) {
      float* const map = At(pass, work.map);
      SumChannels(pass, in, nullptr, map);
      WindowMean(pass, false, map, At(pass, work.other));
      Subtract(pass.stream, SubtractMap{Pixels(), Sample(), in, map, v}, Values(pass));
    }
    if (divisive_) {
      const float* const from = subtractive_ ? v : in;
      float* const s = AtKept(pass, kept.s);
      SumChannels(pass, from, from, s);
      WindowMean(pass, false, s, At(pass, work.other));
      TakeRoots(pass.stream, RootOfMap{s}, MapValues(pass));
      AverageMaps(pass.stream, MapMean{Pixels().value(), s, AtKept(pass, kept.means)},
                  pass.examples);
      Divide(pass.stream, DivideByMap{Pixels(), Sample(), Divisors(pass, kept), from, out},
             Values(pass));
    }
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (in_diff == nullptr) {
      return;
    }
    const Kept kept = KeptOf(pass.examples);
    const Work work = WorkOf(pass.examples);
    float* const map = At(pass, work.map);
    float* const other = At(pass, work.other);
    const float* v_diff = out_diff;
    if (divisive_) {
      const float* const v = subtractive_ ? AtKept(pass, kept.v) : in;
      const ContrastDivisor divisor = Divisors(pass, kept);
      float* const means_diff = At(pass, work.means);
      float* const to = subtractive_ ? At(pass, work.v_diff) : in_diff;
      SumChannels(pass, out_diff, v, map);
      DivisorGradient(pass.stream, DivisorDiffs{Pixels().value(), divisor, map, means_diff},
                      pass.examples);
      RootGradient(pass.stream, RootDiffs{Pixels(), divisor.s, means_diff, map}, MapValues(pass));
      WindowMean(pass, true, map, other);
      DivideGradient(pass.stream,
                     DivisionBackward{Pixels(), Sample(), divisor, v, map, out_diff, to},
                     Values(pass));
      v_diff = to;
    }
    if (subtractive_) {
      SumChannels(pass, v_diff, nullptr, map);
      WindowMean(pass, true, map, other);
      Subtract(pass.stream, SubtractMap{Pixels(), Sample(), v_diff, map, in_diff}, Values(pass));
    }
  }

 private:
  struct Kept {
    uint64_t v;
    uint64_t s;
    uint64_t means;
    uint64_t bytes;
  };
  struct Work {
    uint64_t map;
    uint64_t other;  // between the window's axes
    uint64_t means;
    uint64_t v_diff;
    uint64_t bytes;
  };

  Kept KeptOf(uint64_t examples) const {
    Parts parts;
    Kept kept = {};
    kept.v = parts.Floats(subtractive_ && divisive_ ? examples * channels_ * height_ * width_ : 0);
    kept.s = parts.Floats(divisive_ ? examples * height_ * width_ : 0);
    kept.means = parts.Floats(divisive_ ? examples : 0);
    kept.bytes = parts.bytes();
    return kept;
  }

  Work WorkOf(uint64_t examples) const {
    Parts parts;
    Work work = {};
    work.map = parts.Floats(examples * height_ * width_);
    work.other = parts.Floats(examples * height_ * width_);
    work.means = parts.Floats(examples);
    work.v_diff =
        parts.Floats(subtractive_ && divisive_ ? examples * channels_ * height_ * width_ : 0);
    work.bytes = parts.bytes();
    return work;
  }

  static float* At(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<float*>(pass.workspace + offset);
  }
  static float* AtKept(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<float*>(pass.kept + offset);
  }
  Divisor Pixels() const { return Divisor(Narrow(height_ * width_)); }
  Divisor Sample() const { return Divisor(Narrow(channels_ * height_ * width_)); }
  uint64_t MapValues(const Pass& pass) const { return pass.examples * height_ * width_; }
  uint64_t Values(const Pass& pass) const { return MapValues(pass) * channels_; }
  ContrastDivisor Divisors(const Pass& pass, const Kept& kept) const {
    return {AtKept(pass, kept.s), AtKept(pass, kept.means), epsilon_};
  }

  void SumChannels(const Pass& pass, const float* a, const float* b, float* map) const {
    SumProducts(pass.stream, ChannelProduct{Pixels(), Narrow(channels_), a, b, map},
                MapValues(pass));
  }

  // Of the sums over channels the mean, in place.
  void WindowMean(const Pass& pass, bool adjoint, float* map, float* other) const {
    const Divisor columns(Narrow(width_));
    const float share = 1.0f / static_cast<float>(channels_);
    RunWindow(pass.stream,
              AxisWindow{Divisor(1), columns, half_, rate_, share, adjoint, map, other},
              MapValues(pass));
    RunWindow(pass.stream,
              AxisWindow{columns, Divisor(Narrow(height_)), half_, rate_, 1.0f, adjoint, other,
                         map},
              MapValues(pass));
  }

  uint64_t channels_;
  uint64_t height_;
  uint64_t width_;
  uint32_t half_;
  float epsilon_;
  float rate_ = 0.0f;
  bool subtractive_;
  bool divisive_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeLocalContrastNorm(const LayerPlan& plan,
                                                   Precision /*precision*/) {
  return std::make_unique<LocalContrastNorm>(plan);
}

}  // namespace monsoon::cuda
