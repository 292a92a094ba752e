// Add, multiply and concat.
#include <vector>

#include "worker/backend/cuda/kernels/pointwise_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

class PointwiseJoin : public DeviceLayer {
 public:
  explicit PointwiseJoin(const LayerPlan& plan)
      : multiplies_(plan.kind == LayerKind::kMultiply), values_(plan.output.size()) {}

  void ForwardJoined(const Pass& pass, const Values& in, float* out) const override {
    Join(pass, in[0], in[1], out);
    for (size_t k = 2; k < in.size(); ++k) {
      Join(pass, out, in[k], out);
    }
  }

  void BackwardJoined(const Pass& pass, const Values& in, const float* /*out*/,
                      const float* out_diff, const Diffs& in_diff) const override {
    for (size_t k = 0; k < in.size(); ++k) {
      if (in_diff[k] == nullptr) {
        continue;
      }
      if (!multiplies_) {
        pass.stream.CopyOnDevice(in_diff[k], out_diff, pass.examples * values_ * sizeof(float));
        continue;
      }
      const float* product = out_diff;
      for (size_t other = 0; other < in.size(); ++other) {
        if (other != k) {
          Join(pass, product, in[other], in_diff[k]);
          product = in_diff[k];
        }
      }
    }
  }

 private:
  void Join(const Pass& pass, const float* a, const float* b, float* out) const {
    JoinTwo(pass.stream, JoinPair{multiplies_, a, b, out}, pass.examples * values_);
  }

  bool multiplies_;
  uint64_t values_;
};

// Images by channels, which come first in memory; vectors and sequences by features, at each
// step.
class Concat : public DeviceLayer {
 public:
  explicit Concat(const LayerPlan& plan)
      : steps_(plan.output.steps), total_(Narrow(plan.output.features())) {
    for (const Extent& input : plan.input_extents) {
      widths_.push_back(Narrow(input.features()));
    }
  }

  void ForwardJoined(const Pass& pass, const Values& in, float* out) const override {
    uint32_t first = 0;
    for (size_t k = 0; k < in.size(); first += widths_[k++]) {
      Move(pass, CopyColumns(widths_[k], first, total_, false, in[k], out), widths_[k]);
    }
  }

  void BackwardJoined(const Pass& pass, const Values& /*in*/, const float* /*out*/,
                      const float* out_diff, const Diffs& in_diff) const override {
    uint32_t first = 0;
    for (size_t k = 0; k < in_diff.size(); first += widths_[k++]) {
      if (in_diff[k] != nullptr) {
        Move(pass, CopyColumns(widths_[k], first, total_, true, out_diff, in_diff[k]), widths_[k]);
      }
    }
  }

 private:
  void Move(const Pass& pass, const CopyColumns& op, uint64_t width) const {
    MoveColumns(pass.stream, op, pass.examples * steps_ * width);
  }

  uint64_t steps_;
  uint32_t total_;
  std::vector<uint32_t> widths_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeJoin(const LayerPlan& plan, Precision /*precision*/) {
  if (plan.kind == LayerKind::kConcat) {
    return std::make_unique<Concat>(plan);
  }
  return std::make_unique<PointwiseJoin>(plan);
}

}  // namespace monsoon::cuda
