// Engine: a whole network on one GPU, in plain C++ (no Abseil, no protobuf), so
// that it builds and is tested on a bare GPU host. network.h makes a Network of
// it.
//
// A step of a model up to EngineOptions::graph_parameters floats, and of any model when
// neither parameters nor gradient cross between host and device, is one captured graph per
// batch size, from its second step on: launches would cost more than the work. Where a
// step cannot be captured it runs like the others. These run on three
// streams: parameters are uploaded layer by layer while the layers before
// compute, and each layer's gradient is downloaded while those before it
// compute. Both forms enqueue the same kernels and give the same bits.
//
// What else stays on the device between steps (sums of gradients, a local optimizer) is
// EngineVectors' (engine_vectors.h).
//
// Parameters and gradients in page-locked memory (PageLock, runtime.h) are copied by
// the device itself. Others go through pinned memory of the engine's, which costs the
// host a copy each: for the 167 MB of a speech network 58 ms a step, beside 2 of
// compute (H100).
//
// With float16 products the loss is multiplied by 2^14, so that small gradients
// do not vanish, and the result divided by it in float32. If a value of the
// gradient is not finite, the step is repeated with a scale 16 times smaller,
// down to 1; what is not finite then is the answer. No state: a step's result
// depends on its inputs alone.
//
// Thread safety: none; calls come one at a time, from any thread, and block
// until the result is in host memory.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/backend/cuda/kernels/gemm.h"
#include "worker/backend/cuda/kernels/loss_ops.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/backend/cuda/layers/memory_plan.h"
#include "worker/backend/cuda/runtime/error_log.h"
#include "worker/backend/cuda/runtime/runtime.h"
#include "worker/nn/buffer_plan.h"
#include "worker/nn/layer_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::cuda {

struct EngineOptions {
  uint32_t device_index = 0;
  uint64_t memory_limit_bytes = 0;  // 0: none
  Precision precision = Precision::kFloat32;
  // Up to how many floats of parameters a step is a graph even if they cross: 8 MiB, a
  // copy of which takes as long as the launches of some 15 layers.
  uint64_t graph_parameters = uint64_t{1} << 21;
  bool graphs = true;
  bool fuse_bias = true;  // of dense layers, into their products
};

// The samples of a call, in host memory.
struct Samples {
  const float* inputs;             // [examples, input]
  const uint32_t* labels;          // [examples, steps], each below the classes; null: none
  uint64_t examples;               // at least 1
  const float* targets = nullptr;  // [examples, steps * outputs]; null: the labels
  const float* weights = nullptr;  // [examples]; null: 1 each
};

struct EngineResult {
  double loss_sum = 0;  // over the samples
  double correct = 0;
};

class Engine {
 public:
  // Errors show in errors(); the object is of no use then. At least one layer.
  Engine(EngineModel model, const EngineOptions& options);
  ~Engine();

  const ErrorLog& errors() const { return errors_; }

  // The values must stay alive and unchanged until the next call of it: a step takes
  // each layer's to the device when the layers before it are enqueued. No call returns
  // while the device still reads or writes the caller's memory.
  void SetParameters(std::span<const float> parameters);

  // One training step: the gradient of the samples' mean loss, all of it
  // overwritten, what belongs to no tensor with zero. False on an error.
  bool Train(const Samples& samples, const StepKey& key, std::span<float> gradient,
             EngineResult* result);
  // Forward only, without dropout.
  bool Evaluate(const Samples& samples, EngineResult* result);

  // What the last call of Evaluate has computed, [examples, steps, outputs].
  bool CopyOutputs(std::span<float> outputs);

  // Train without the gradient's way to the host: it stays on the device until the next
  // step.
  bool TrainOnDevice(const Samples& samples, const StepKey& key, EngineResult* result);

  // Device, versions and precision: what the bits depend on.
  std::string Fingerprint() const;

  // Bytes of parameters and gradients that the host has copied so far.
  uint64_t host_copied_bytes() const { return host_copied_bytes_; }
  // Bytes of parameters and gradients that crossed between host and device so far.
  uint64_t crossed_bytes() const { return crossed_bytes_; }

  // Why steps are no graphs; empty: they are, or never were to be.
  const std::string& graph_failure() const { return graph_failure_; }

  // Why biases are added by kernels of their own; empty: they are not, or it was asked for.
  std::string fusion_failure() const { return gemm_ == nullptr ? "" : gemm_->fusion_failure(); }

  // Steps repeated with a smaller loss scale so far.
  uint64_t repeated_steps() const { return repeated_steps_; }

 private:
  friend class EngineVectors;

  // kMaxSequences of the CPU backend: a batch size, its tail, the same two for
  // evaluation, twice.
  static constexpr size_t kMaxGraphs = 8;
  static constexpr size_t kMaxSeen = 32;

  enum class StepKind { kEvaluate, kTrain, kTrainOnDevice };
  struct CapturedStep {
    uint64_t examples;
    PassKind pass;
    Graph graph;
  };
  // A layer's way between host and device.
  struct Transfer {
    explicit Transfer(ErrorLog& errors)
        : uploaded(errors), gradient_ready(errors), downloaded(errors) {}
    Event uploaded, gradient_ready, downloaded;
    bool outdated = false;  // the device has not the newest parameters
  };
  // Floats of the device that are added to the parameters once these are there.
  struct LateAdd {
    const float* from;
    TensorSlot to;
  };

  // Before a call: the device is the thread's, and want of memory forgotten; a
  // smaller batch may fit. False after any other error.
  bool Begin();
  bool Prepare(uint64_t examples);
  // `key` is read, and `gradient` written, by the kinds that need them.
  bool Run(StepKind kind, const Samples& samples, const StepKey& key, std::span<float> gradient,
           EngineResult* result);
  void Stage(const Samples& samples, const StepKey& key);
  // What the loss is told of them, into the staged block.
  void StageLoss(const Samples& samples, const StagingLayout& layout, char* block) const;
  // The graph of such a step; null, the first time, and where it cannot be captured.
  CapturedStep* FindGraph(StepKind kind, PassKind pass, uint64_t examples);
  CapturedStep* Capture(PassKind pass, uint64_t examples);
  void RunAsGraph(StepKind kind, const CapturedStep& step);
  void RunOnStreams(StepKind kind, PassKind pass, uint64_t examples);
  // Waits for all streams, after an error too.
  void Drain();
  // `buffer`, pinned, with room for the whole vector; made when first needed.
  float* WholeVector(Buffer& buffer);

  // Enqueue on compute_; with `overlap`, layer by layer with the transfers.
  void EnqueueForward(uint64_t examples, PassKind kind, bool overlap);
  void EnqueueLoss(const Pass& pass);
  // `download` sends each tensor's gradient to the host once it is there.
  void EnqueueBackward(uint64_t examples, PassKind kind, bool download);
  void EnqueueLayerBackward(const Pass& pass, size_t layer);
  void EnqueueGradientEnd(size_t layer, bool download);
  Pass MakePass(uint64_t examples, PassKind kind);
  // The layer's output is its input.
  bool PassesOn(size_t layer, PassKind kind) const;
  // The loss's gradient of a value; null: nobody needs it.
  float* GradientOf(ValueIndex value) const;
  void SetInputs(size_t layer);
  // Those that no layer before it has: it comes with them first, and last in a backward pass,
  // when what they share is complete.
  const std::vector<TensorSlot>& SlotsOf(size_t layer) const { return own_slots_[layer]; }
  bool outdated() const;
  void UploadTensor(const TensorSlot& slot);
  // All layers' at once.
  void UploadAll();
  // What follows an upload of that part: late additions, halves.
  void FinishUpload(const TensorSlot& slot);
  // Parameters are not to be written before what uses them has run.
  void AwaitVectors();
  void CastParameters(Stream& stream, const TensorSlot& slot);
  // Unless the device has the layer's newest parameters. The pinned memory is
  // free: a step ends when all its copies have.
  void UploadLayer(size_t layer);
  // What the host has to copy, if anything, once the gradient has come down.
  void CopyOut(size_t layer);

  ErrorLog errors_;    // first: all else refers to it
  bool made_ = false;  // the constructor had all it needs
  const EngineModel model_;
  const std::vector<LayerPlan>& plans_;  // the model's
  const BufferPlan buffers_;
  const float* new_parameters_ = nullptr;
  bool parameters_locked_ = false;  // the device reads them where they are
  float* gradient_out_ = nullptr;   // the caller's, of the current step
  float* download_to_ = nullptr;    // where the device writes it: there, or pinned
  uint64_t host_copied_bytes_ = 0;
  uint64_t crossed_bytes_ = 0;
  uint64_t vector_bytes_ = 0;  // what EngineVectors holds of the device
  EngineOptions options_;
  uint64_t parameter_floats_;
  std::vector<std::vector<TensorSlot>> own_slots_;    // of each layer
  std::vector<TensorSlot> gaps_;                      // of the flat vector
  std::vector<std::unique_ptr<DeviceLayer>> layers_;  // null: flatten
  uint64_t repeated_steps_ = 0;

  // Buffers come before the streams, which are drained when they go.
  Buffer parameters_, half_parameters_, gradient_, sums_;
  Buffer pinned_parameters_, pinned_gradient_, pinned_sums_, pinned_outputs_;
  uint64_t capacity_ = 0;  // examples that the next ones have room for
  Buffer staging_, pinned_staging_, workspace_, added_, largest_, row_sums_, losses_;
  std::vector<Buffer> outputs_, kept_;  // of each layer
  std::vector<Buffer> gradients_;       // of BufferPlan.gradient
  std::vector<const float*> values_;    // of the current pass, numbered as LayerPlan.inputs
  std::vector<const float*> inputs_;    // of the current layer
  std::vector<float*> input_diffs_;

  std::unique_ptr<Stream> compute_, upload_, download_;
  std::unique_ptr<Gemm> gemm_;
  std::vector<Transfer> transfers_;      // of each layer
  std::vector<LateAdd> late_adds_;       // to parameters that are not there yet
  std::unique_ptr<Event> vectors_done_;  // work on vectors since the last step
  bool vectors_pending_ = false;
  std::unique_ptr<Event> reads_done_;              // copies of vectors to the host
  bool reads_pending_ = false;                     // vectors must not change before it...
  bool gradient_read_ = false;                     // ...nor the gradient
  std::list<CapturedStep> graphs_;                 // most recently used first
  std::list<std::pair<uint64_t, PassKind>> seen_;  // examples and pass, newest first
  std::string graph_failure_;
};

}  // namespace monsoon::cuda
