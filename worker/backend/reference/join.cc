// Add, multiply and concat.
#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class Pointwise : public ReferenceLayer {
 public:
  explicit Pointwise(bool multiplies) : multiplies_(multiplies) {}

  void ForwardJoined(const Pass& /*pass*/, const Values& in, std::span<double> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      double value = in[0][i];
      for (size_t k = 1; k < in.size(); ++k) {
        value = multiplies_ ? value * in[k][i] : value + in[k][i];
      }
      out[i] = value;
    }
  }

  void BackwardJoined(const Pass& /*pass*/, const Values& in, std::span<const double> /*out*/,
                      std::span<const double> out_diff, const Diffs& in_diff,
                      std::span<double> /*gradient*/) override {
    for (size_t k = 0; k < in.size(); ++k) {
      for (size_t i = 0; i < out_diff.size(); ++i) {
        double factor = 1;
        for (size_t other = 0; other < in.size() && multiplies_; ++other) {
          factor *= other == k ? 1.0 : in[other][i];
        }
        in_diff[k][i] = out_diff[i] * factor;
      }
    }
  }

 private:
  const bool multiplies_;
};

// Images by channels, which come first in memory; vectors and sequences by features, at each
// step.
class Concat : public ReferenceLayer {
 public:
  explicit Concat(const LayerPlan& plan) : inputs_(plan.input_extents), steps_(plan.output.steps) {}

  void ForwardJoined(const Pass& pass, const Values& in, std::span<double> out) override {
    size_t at = 0;
    for (size_t row = 0; row < pass.examples * steps_; ++row) {
      for (size_t k = 0; k < in.size(); ++k) {
        const size_t width = inputs_[k].features();
        std::copy_n(in[k].begin() + static_cast<ptrdiff_t>(row * width), width,
                    out.begin() + static_cast<ptrdiff_t>(at));
        at += width;
      }
    }
  }

  void BackwardJoined(const Pass& pass, const Values& in, std::span<const double> /*out*/,
                      std::span<const double> out_diff, const Diffs& in_diff,
                      std::span<double> /*gradient*/) override {
    size_t at = 0;
    for (size_t row = 0; row < pass.examples * steps_; ++row) {
      for (size_t k = 0; k < in.size(); ++k) {
        const size_t width = inputs_[k].features();
        std::copy_n(out_diff.begin() + static_cast<ptrdiff_t>(at), width,
                    in_diff[k].begin() + static_cast<ptrdiff_t>(row * width));
        at += width;
      }
    }
  }

 private:
  const std::vector<Extent> inputs_;
  const size_t steps_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeJoin(const LayerPlan& plan) {
  if (plan.kind == LayerKind::kConcat) {
    return std::make_unique<Concat>(plan);
  }
  return std::make_unique<Pointwise>(plan.kind == LayerKind::kMultiply);
}

}  // namespace monsoon::reference
