#include <algorithm>

#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/kernels/norm_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// Of images by channel, of vectors by feature. Training takes the batch's mean and variance;
// evaluations and batch jobs the running ones.
class BatchNorm : public DeviceLayer {
 public:
  explicit BatchNorm(const LayerPlan& plan)
      : scale_(plan.weight),
        shift_(plan.bias),
        mean_(plan.tensors[plan.tensors.size() - 2]),
        variance_(plan.tensors.back()),
        channels_(plan.input.channels),
        area_(plan.input.height * plan.input.width),
        epsilon_(static_cast<float>(plan.epsilon)),
        momentum_(static_cast<float>(plan.momentum)) {}

  // The batch's sums, of values and of squared deviations.
  uint64_t KeptBytes(uint64_t /*examples*/) const override { return 2 * OfChannels(); }

  // A value for each of the input, two sums of channels, and what such sums need.
  uint64_t WorkspaceBytes(uint64_t examples) const override {
    return ScratchAt(examples) +
           std::max(ChannelSumBytes(Shape(), examples), ColumnSumBytes(examples, channels_));
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    if (ByBatch(pass)) {
      SumByChannel(pass, in, KeptMean(pass));
      const auto squares = reinterpret_cast<float*>(pass.workspace);
      SquareDeviations(
          pass.stream,
          BatchDeviation{Channels(), KeptMean(pass), 1.0f / Count(pass.examples), in, squares},
          Values(pass.examples));
      SumByChannel(pass, squares, KeptVariance(pass));
    }
    NormaliseBatch(pass.stream,
                   BatchNormForward{Channels(), Moments(pass), Parameters(pass, scale_),
                                    Parameters(pass, shift_), in, out},
                   Values(pass.examples));
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const auto products = reinterpret_cast<float*>(pass.workspace);
    const auto sums = reinterpret_cast<float*>(pass.workspace + SumsAt(pass.examples));
    const bool own = scale_.size == 0;
    float* const product_sums = own ? sums : pass.gradient + scale_.offset;
    float* const diff_sums =
        own ? sums + OfChannels() / sizeof(float) : pass.gradient + shift_.offset;
    const ChannelMoments moments = Moments(pass);
    NormalProducts(pass.stream, BatchNormProducts{Channels(), moments, in, out_diff, products},
                   Values(pass.examples));
    SumByChannel(pass, products, product_sums);
    SumByChannel(pass, out_diff, diff_sums);
    const bool moves = ByBatch(pass);
    if (in_diff != nullptr) {
      const float share = moves ? 1.0f / Count(pass.examples) : 0.0f;
      NormaliseBatchGradient(
          pass.stream,
          BatchNormBackward{Channels(), moments, Parameters(pass, scale_), diff_sums, product_sums,
                            share, in, out_diff, in_diff},
          Values(pass.examples));
    }
    float* const mean_diff = pass.gradient + mean_.offset;
    float* const variance_diff = pass.gradient + variance_.offset;
    if (moves) {
      const float count = Count(pass.examples);
      MoveRunningMoments(
          pass.stream,
          MoveMoments{moments, momentum_, count / (count - 1.0f), pass.parameters + mean_.offset,
                      pass.parameters + variance_.offset, pass.control, mean_diff, variance_diff},
          channels_);
    } else {
      pass.stream.Zero(mean_diff, channels_ * sizeof(float));
      pass.stream.Zero(variance_diff, channels_ * sizeof(float));
    }
  }

 private:
  // One value has no variance: the running ones stand in for it, and stay.
  bool ByBatch(const Pass& pass) const {
    return pass.kind == PassKind::kTrain && pass.examples * area_ > 1;
  }
  uint64_t Values(uint64_t examples) const { return examples * channels_ * area_; }
  // Values of a channel.
  float Count(uint64_t examples) const { return static_cast<float>(examples * area_); }
  uint64_t OfChannels() const { return Aligned(channels_ * sizeof(float)); }
  uint64_t SumsAt(uint64_t examples) const { return Aligned(Values(examples) * sizeof(float)); }
  uint64_t ScratchAt(uint64_t examples) const { return SumsAt(examples) + 2 * OfChannels(); }

  ChannelOf Channels() const { return {Divisor(Narrow(channels_)), Divisor(Narrow(area_))}; }
  float* KeptMean(const Pass& pass) const { return reinterpret_cast<float*>(pass.kept); }
  float* KeptVariance(const Pass& pass) const {
    return reinterpret_cast<float*>(pass.kept + OfChannels());
  }
  static const float* Parameters(const Pass& pass, const TensorSlot& slot) {
    return slot.size == 0 ? nullptr : pass.parameters + slot.offset;
  }

  ChannelMoments Moments(const Pass& pass) const {
    if (ByBatch(pass)) {
      return {KeptMean(pass), KeptVariance(pass), 1.0f / Count(pass.examples), epsilon_};
    }
    return {Parameters(pass, mean_), Parameters(pass, variance_), 1.0f, epsilon_};
  }

  ImageShape Shape() const {
    ImageShape shape = {};
    shape.out_channels = Narrow(channels_);
    shape.out_height = Narrow(area_);
    shape.out_width = 1;
    return shape;
  }

  void SumByChannel(const Pass& pass, const float* values, float* sums) const {
    char* const scratch = pass.workspace + ScratchAt(pass.examples);
    const uint32_t examples = Narrow(pass.examples);
    if (area_ == 1) {
      SumColumns(pass.stream, ColumnSums{values, examples, Narrow(channels_), sums, scratch});
    } else {
      SumChannels(pass.stream, ChannelSums{Shape(), examples, values, sums, scratch});
    }
  }

  TensorSlot scale_;
  TensorSlot shift_;
  TensorSlot mean_;
  TensorSlot variance_;
  uint64_t channels_;
  uint64_t area_;
  float epsilon_;
  float momentum_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeBatchNorm(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<BatchNorm>(plan);
}

}  // namespace monsoon::cuda
