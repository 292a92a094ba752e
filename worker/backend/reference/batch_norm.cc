#include <cmath>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class BatchNorm : public ReferenceLayer {
 public:
  explicit BatchNorm(const LayerPlan& plan)
      : plan_(plan),
        area_(plan.input.height * plan.input.width),
        running_mean_(plan.tensors[plan.tensors.size() - 2]),
        running_variance_(plan.tensors.back()) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t c = 0; c < plan_.input.channels; ++c) {
      const Channel channel = Judge(pass, in, c);
      const double shift = plan_.bias.size == 0 ? 0 : pass.parameters[plan_.bias.offset + c];
      ForChannel(pass, c, [&](size_t i) {
        out[i] = channel.scale * (in[i] - channel.mean) * channel.inverse + shift;
      });
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    for (size_t c = 0; c < plan_.input.channels; ++c) {
      const Channel channel = Judge(pass, in, c);
      const double count = static_cast<double>(pass.examples * area_);
      double sum = 0, product = 0;  // of the gradient, and of it with the normalised x
      ForChannel(pass, c, [&](size_t i) {
        sum += out_diff[i];
        product += out_diff[i] * (in[i] - channel.mean) * channel.inverse;
      });
      ForChannel(pass, c, [&](size_t i) {
        double diff = out_diff[i];
        if (ByBatch(pass)) {  // mean and variance are the inputs' too
          diff -= sum / count + (in[i] - channel.mean) * channel.inverse * product / count;
        }
        in_diff[i] = diff * channel.scale * channel.inverse;
      });
      if (plan_.weight.size != 0) {
        gradient[plan_.weight.offset + c] += product;
        gradient[plan_.bias.offset + c] += sum;
      }
      if (ByBatch(pass)) {
        // What is subtracted moves the running ones towards those of the batch.
        const double unbiased = channel.variance * count / (count - 1);
        gradient[running_mean_.offset + c] +=
            plan_.momentum * (pass.parameters[running_mean_.offset + c] - channel.mean);
        gradient[running_variance_.offset + c] +=
            plan_.momentum * (pass.parameters[running_variance_.offset + c] - unbiased);
      }
    }
  }

 private:
  struct Channel {
    double mean = 0;
    double variance = 0;
    double inverse = 0;  // 1 / sqrt(variance + epsilon)
    double scale = 1;
  };

  // One value has no variance: the running ones stand in for it, and stay.
  bool ByBatch(const Pass& pass) const {
    return pass.training != nullptr && !pass.frozen() && pass.examples * area_ > 1;
  }

  // f(index) for each value of the channel.
  template <typename F>
  void ForChannel(const Pass& pass, size_t c, F f) const {
    for (size_t n = 0; n < pass.examples; ++n) {
      for (size_t p = 0; p < area_; ++p) {
        f((n * plan_.input.channels + c) * area_ + p);
      }
    }
  }

  // With mean and variance of the batch, or the running ones.
  Channel Judge(const Pass& pass, std::span<const double> in, size_t c) const {
    Channel channel;
    if (!ByBatch(pass)) {
      channel.mean = pass.parameters[running_mean_.offset + c];
      channel.variance = pass.parameters[running_variance_.offset + c];
    } else {
      const double count = static_cast<double>(pass.examples * area_);
      ForChannel(pass, c, [&](size_t i) { channel.mean += in[i] / count; });
      ForChannel(pass, c, [&](size_t i) {
        channel.variance += (in[i] - channel.mean) * (in[i] - channel.mean) / count;
      });
    }
    channel.inverse = 1 / std::sqrt(channel.variance + plan_.epsilon);
    channel.scale = plan_.weight.size == 0 ? 1 : pass.parameters[plan_.weight.offset + c];
    return channel;
  }

  const LayerPlan plan_;
  const size_t area_;
  const TensorSlot running_mean_;
  const TensorSlot running_variance_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeBatchNorm(const LayerPlan& plan) {
  return std::make_unique<BatchNorm>(plan);
}

}  // namespace monsoon::reference
