// DeviceLayer: one layer on the GPU, forward and backward. Plain C++ over the
// kernels and matrix products; the same code runs on the host stand-in.
//
// Values are float32, sample-major in logical order (n, c, h, w), in device
// memory. Every call enqueues on the pass's stream and returns; errors go to the
// stream's ErrorLog. A layer owns no memory; what it keeps from a forward pass for the
// backward one lies where the pass says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/model/layer_kinds.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/gemm.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/runtime/runtime.h"
#include "worker/nn/layer_plan.h"

namespace monsoon::cuda {

// Frozen: of a batch job, whose loss is a function of the parameters: statistics stand still,
// and samples are as they are.
enum class PassKind { kEvaluate, kTrain, kTrainFrozen };

// What the layers of one pass share.
struct Pass {
  Stream& stream;
  Gemm& gemm;
  uint64_t examples;
  const float* parameters;          // the whole flat vector
  const uint16_t* half_parameters;  // the same, where products take halves
  float* gradient;                  // the whole flat vector
  const StepControl* control;
  const uint64_t* sample_keys;  // [examples]
  // Scratch of WorkspaceBytes, at a multiple of 256 bytes; nothing stays in it
  // from one call to the next.
  char* workspace;
  PassKind kind = PassKind::kTrain;
  // Of KeptBytes, aligned likewise: the layer's own, from its Forward to its Backward.
  char* kept = nullptr;
};

class DeviceLayer {
 public:
  virtual ~DeviceLayer() = default;

  // Neither falls with the examples.
  virtual uint64_t WorkspaceBytes(uint64_t /*examples*/) const { return 0; }
  virtual uint64_t KeptBytes(uint64_t /*examples*/) const { return 0; }

  // Its output is its input: the pass goes by.
  virtual bool PassesOn(PassKind /*kind*/) const { return false; }

  // `in` has examples * input, `out` examples * output values, all overwritten.
  virtual void Forward(const Pass& /*pass*/, const float* /*in*/, float* /*out*/) const {}

  // From dloss/dout to dloss/din, overwritten, unless in_diff is null: nobody
  // needs it. Overwrites the layer's parts of pass.gradient, and adds to those that are
  // shared (TensorSlot). `in` and `out` are those of the Forward before.
  virtual void Backward(const Pass& /*pass*/, const float* /*in*/, const float* /*out*/,
                        const float* /*out_diff*/, float* /*in_diff*/) const {}

  // The same of a layer that takes several values; those above, of one.
  using Values = std::span<const float* const>;
  using Diffs = std::span<float* const>;
  virtual void ForwardJoined(const Pass& pass, const Values& in, float* out) const {
    Forward(pass, in.front(), out);
  }
  virtual void BackwardJoined(const Pass& pass, const Values& in, const float* out,
                              const float* out_diff, const Diffs& in_diff) const {
    Backward(pass, in.front(), out, out_diff, in_diff.front());
  }
};

// Each kind's maker; MakeLayer chooses.
#define MONSOON_DEVICE_LAYER(kind, proto_case, name, maker) \
  std::unique_ptr<DeviceLayer> Make##maker(const LayerPlan& plan, Precision precision);
MONSOON_LAYER_KINDS(MONSOON_DEVICE_LAYER)
#undef MONSOON_DEVICE_LAYER

std::unique_ptr<DeviceLayer> MakeLayer(const LayerPlan& plan, Precision precision);

// A convolution's columns and products of so many bytes are computed at a time, so that
// a product reads from the L2 cache what was unfolded for it: half of the cache of an
// H100 (50 MiB) and some more of an A100's (40). A T4's (4 MiB) would need groups too
// small for its multiprocessors; it reads its memory.
inline constexpr uint64_t kConvolutionGroupBytes = uint64_t{24} << 20;

std::unique_ptr<DeviceLayer> MakeConv2d(const LayerPlan& plan, Precision precision,
                                        uint64_t group_bytes);

// A product's factor: floats as they are, or cast into `scratch`.
const void* AsFactor(const Pass& pass, Precision precision, const float* values, uint64_t count,
                     uint16_t* scratch);
// The weights a product takes.
const void* WeightFactor(const Pass& pass, Precision precision, const TensorSlot& weight);

// Kernels number elements in 32 bits; a count that does not fit is refused at the launch
// (kMaxElements), and a layer's own sizes are below 2^24 (kMaxLayerExtent).
inline uint32_t Narrow(uint64_t value) { return static_cast<uint32_t>(value); }

// Sizes of scratch parts are rounded up to this.
inline uint64_t Aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace monsoon::cuda
