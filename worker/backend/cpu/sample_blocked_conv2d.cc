#include "worker/backend/cpu/sample_blocked_conv2d.h"

#include <algorithm>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "common/simd/simd_level.h"
#include "worker/backend/cpu/parallel.h"
#include "worker/backend/cpu/sample_blocked_loops.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;

const SampleBlockedLoops& Loops() {
  return ActiveLoops(simd_baseline::kSampleBlockedLoops, simd_avx2::kSampleBlockedLoops,
                     simd_avx512::kSampleBlockedLoops);
}

size_t Blocks(size_t examples) { return (examples + kBlockSamples - 1) / kBlockSamples; }

// What one SampleBlockedConv2d computes.
struct Fused {
  const LayerPlan* conv = nullptr;
  bool relu = false;
  size_t window = 1;
  Extent output;
};

// Reads it at plan.layers[at], a convolution, and moves `at` behind it.
Fused ReadFused(const NetworkPlan& plan, size_t& at) {
  Fused fused;
  fused.conv = &plan.layers[at++];
  fused.output = fused.conv->output;
  if (at < plan.layers.size() && plan.layers[at].kind == LayerKind::kRelu) {
    fused.relu = true;
    ++at;
  }
  if (at < plan.layers.size() && plan.layers[at].kind == LayerKind::kAveragePool2d &&
      plan.layers[at].stride == plan.layers[at].window) {
    fused.window = plan.layers[at].window;
    fused.output = plan.layers[at].output;
    ++at;
  }
  return fused;
}

class SampleBlockedConv2d : public CpuLayer {
 public:
  SampleBlockedConv2d(const LayerArguments& arguments, int threads, const Fused& fused)
      : shape_(Shape(fused)),
        weight_slot_(fused.conv->weight),
        bias_slot_(fused.conv->bias),
        blocks_(Blocks(arguments.context.examples())),
        input_(arguments.input),
        taps_(shape_.channels * shape_.kernel * shape_.kernel),
        plane_(shape_.out_height * shape_.out_width),
        pooled_plane_(fused.output.height * fused.output.width),
        weights_(AlignedFloats::NanFilled(Groups(shape_.filters) * taps_ * kGroup)),
        bias_(AlignedFloats::NanFilled(Groups(shape_.filters) * kGroup)),
        passed_(blocks_ * shape_.filters * plane_),
        parts_(std::min(static_cast<size_t>(threads), blocks_)) {
    const Context& context = arguments.context;
    AllocateOutput(arguments, SampleBlockedDesc(context.examples(), fused.output), fused.output);
    // Groups are whole: filters, and channels, that are not there have no weights.
    weights_.Fill(0);
    bias_.Fill(0);
    for (Part& part : parts_) {
      part.outputs = AlignedFloats::NanFilled(kGroup * plane_ * kBlockSamples);
    }
    if (!context.training()) {
      return;
    }
    for (Part& part : parts_) {
      // Filters that are not there have no gradient.
      part.outputs_diff =
          AlignedFloats::NanFilled(Groups(shape_.filters) * kGroup * plane_ * kBlockSamples);
      part.outputs_diff.Fill(0);
      part.weight_sums = AlignedFloats::NanFilled(weights_.size() * kBlockSamples);
      part.weight_totals = AlignedFloats::NanFilled(weights_.size());
      part.bias_totals = AlignedFloats::NanFilled(shape_.filters);
    }
    if (input_.diff) {
      data_weights_ = AlignedFloats::NanFilled(Groups(shape_.channels) * kGroup * shape_.filters *
                                               shape_.kernel * shape_.kernel);
      data_weights_.Fill(0);
    }
  }

  void SetParameters(const float* parameters) override;
  void Forward(const StepKey* key) override;
  void Backward(float* gradient) override;

 private:
  // A run of blocks, which one thread computes, and what it needs for it.
  struct Part {
    AlignedFloats outputs;       // of one group of filters and one block
    AlignedFloats outputs_diff;  // of all filters and one block
    AlignedFloats weight_sums;   // one for each sample of a block
    AlignedFloats weight_totals;
    AlignedFloats bias_totals;
  };

  static SampleBlockedShape Shape(const Fused& fused) {
    const LayerPlan& conv = *fused.conv;
    return {conv.input.channels,  conv.input.height, conv.input.width,
            conv.output.channels, conv.window,       conv.output.height,
            conv.output.width,    fused.window,      fused.relu};
  }

  const float* InputOf(size_t block) const {
    return Data(input_.value) +
           block * shape_.channels * shape_.height * shape_.width * kBlockSamples;
  }
  // Where `filter`'s pooled plane begins.
  size_t PooledPlane(size_t block, size_t filter) const {
    return (block * shape_.filters + filter) * pooled_plane_ * kBlockSamples;
  }
  uint16_t* PassedOf(size_t block, size_t filter) {
    return passed_.data() + (block * shape_.filters + filter) * plane_;
  }
  size_t BeginOf(size_t part) const { return blocks_ * part / parts_.size(); }
  void ForwardBlock(Part& part, size_t block);
  void BackwardWeights(Part& part, size_t block);
  void BackwardData(Part& part, size_t block);

  const SampleBlockedShape shape_;
  const TensorSlot weight_slot_;
  const TensorSlot bias_slot_;
  const size_t blocks_;  // of samples
  const Port input_;
  const size_t taps_;          // weights of one filter
  const size_t plane_;         // pixels of an output before pooling
  const size_t pooled_plane_;  // and behind it
  AlignedFloats weights_;      // as SampleBlockedLoops::forward wants them
  AlignedFloats bias_;
  AlignedFloats data_weights_;  // as SampleBlockedLoops::backward_data wants them
  std::vector<uint16_t> passed_;
  std::vector<Part> parts_;
};

void SampleBlockedConv2d::SetParameters(const float* parameters) {
  const float* weights = parameters + weight_slot_.offset;
  for (size_t filter = 0; filter < shape_.filters; ++filter) {
    const size_t place = filter % kGroup;
    float* const to = weights_.data() + (filter - place) * taps_ + place;
    for (size_t tap = 0; tap < taps_; ++tap) {
      to[tap * kGroup] = weights[filter * taps_ + tap];
    }
  }
  std::copy_n(parameters + bias_slot_.offset, bias_slot_.size, bias_.data());
  if (!input_.diff || !output_.diff) {
    return;
  }
  const size_t window = shape_.kernel * shape_.kernel;
  for (size_t filter = 0; filter < shape_.filters; ++filter) {
    for (size_t channel = 0; channel < shape_.channels; ++channel) {
      const size_t place = channel % kGroup;
      float* const to = data_weights_.data() +
                        ((channel - place) * shape_.filters + filter * kGroup) * window + place;
      for (size_t tap = 0; tap < window; ++tap) {
        to[tap * kGroup] = *weights++;
      }
    }
  }
}

void SampleBlockedConv2d::Forward(const StepKey* key) {
  ForEachPart(parts_.size(), [this](size_t part) {
    for (size_t block = BeginOf(part); block < BeginOf(part + 1); ++block) {
      ForwardBlock(parts_[part], block);
    }
  });
}

void SampleBlockedConv2d::ForwardBlock(Part& part, size_t block) {
  const SampleBlockedLoops& loops = Loops();
  for (size_t begin = 0; begin < shape_.filters; begin += kGroup) {
    loops.forward(shape_, InputOf(block), weights_.data() + begin * taps_, bias_.data() + begin,
                  part.outputs.data());
    const size_t end = std::min(begin + kGroup, shape_.filters);
    for (size_t filter = begin; filter < end; ++filter) {
      loops.pool(shape_, part.outputs.data() + (filter - begin) * plane_ * kBlockSamples,
                 Data(output_.value) + PooledPlane(block, filter), PassedOf(block, filter));
    }
  }
}

void SampleBlockedConv2d::Backward(float* gradient) {
  ForEachPart(parts_.size(), [this](size_t number) {
    Part& part = parts_[number];
    part.weight_sums.Fill(0);
    part.bias_totals.Fill(0);
    for (size_t block = BeginOf(number); block < BeginOf(number + 1); ++block) {
      BackwardWeights(part, block);
      if (input_.diff) {
        BackwardData(part, block);
      }
    }
    Loops().sum_samples(part.weight_totals.size(), part.weight_sums.data(),
                        part.weight_totals.data());
  });
  // In the order of the parts, so that the bits hang on their number alone.
  for (size_t number = 1; number < parts_.size(); ++number) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      parts_[0].weight_totals.data()[i] += parts_[number].weight_totals.data()[i];
    }
    for (size_t i = 0; i < shape_.filters; ++i) {
      parts_[0].bias_totals.data()[i] += parts_[number].bias_totals.data()[i];
    }
  }
  float* weights = gradient + weight_slot_.offset;
  const float* from = parts_[0].weight_totals.data();
  for (size_t begin = 0; begin < shape_.filters; begin += kGroup) {
    const size_t filters = std::min(kGroup, shape_.filters - begin);
    for (size_t tap = 0; tap < taps_; ++tap) {
      for (size_t i = 0; i < filters; ++i) {
        weights[(begin + i) * taps_ + tap] = from[i];
      }
      from += kGroup;
    }
  }
  std::copy_n(parts_[0].bias_totals.data(), bias_slot_.size, gradient + bias_slot_.offset);
}

// The outputs' gradient, too.
void SampleBlockedConv2d::BackwardWeights(Part& part, size_t block) {
  const SampleBlockedLoops& loops = Loops();
  for (size_t begin = 0; begin < shape_.filters; begin += kGroup) {
    float* diff = part.outputs_diff.data() + begin * plane_ * kBlockSamples;
    const size_t end = std::min(begin + kGroup, shape_.filters);
    for (size_t filter = begin; filter < end; ++filter) {
      float sum = 0;
      loops.unpool(shape_, Data(output_.diff) + PooledPlane(block, filter), PassedOf(block, filter),
                   diff + (filter - begin) * plane_ * kBlockSamples, &sum);
      part.bias_totals.data()[filter] += sum;
    }
    loops.backward_weights(shape_, InputOf(block), diff,
                           part.weight_sums.data() + begin * taps_ * kBlockSamples);
  }
}

void SampleBlockedConv2d::BackwardData(Part& part, size_t block) {
  const SampleBlockedLoops& loops = Loops();
  const size_t plane = shape_.height * shape_.width * kBlockSamples;
  float* to = Data(input_.diff) + block * shape_.channels * plane;
  const size_t group_weights = shape_.filters * shape_.kernel * shape_.kernel;
  for (size_t begin = 0; begin < shape_.channels; begin += kGroup) {
    loops.backward_data(shape_, part.outputs_diff.data(),
                        data_weights_.data() + begin * group_weights,
                        std::min(kGroup, shape_.channels - begin), to + begin * plane);
  }
}

}  // namespace

bool SuitsSampleBlocks(const NetworkPlan& plan, size_t examples, int threads) {
  const size_t empty = Blocks(examples) * kBlockSamples - examples;
  if (static_cast<size_t>(threads) > Blocks(examples) || empty > examples / 4 || !plan.is_chain ||
      plan.layers.front().kind != LayerKind::kConv2d) {
    return false;
  }
  for (size_t at = 0; at < plan.layers.size();) {
    const LayerPlan& layer = plan.layers[at];
    if (layer.kind == LayerKind::kFlatten) {
      return true;
    }
    if (layer.kind == LayerKind::kDropout) {
      ++at;
    } else if (layer.kind == LayerKind::kConv2d && layer.stride == 1 && layer.padding == 0) {
      ReadFused(plan, at);
    } else {
      return false;
    }
  }
  return false;
}

memory::desc SampleBlockedDesc(size_t examples, const Extent& extent) {
  return memory::desc(
      {static_cast<memory::dim>(examples), static_cast<memory::dim>(extent.channels),
       static_cast<memory::dim>(extent.height), static_cast<memory::dim>(extent.width)},
      memory::data_type::f32, memory::format_tag::Abcd16a);
}

std::unique_ptr<CpuLayer> MakeSampleBlockedConv2d(const LayerArguments& arguments, int threads,
                                                  const NetworkPlan& plan, size_t& at) {
  return std::make_unique<SampleBlockedConv2d>(arguments, threads, ReadFused(plan, at));
}

}  // namespace monsoon::cpu
