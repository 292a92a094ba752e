#include "worker/backend/cuda/layers/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/launch_limits.h"
#include "worker/backend/cuda/kernels/loss_kernels.h"
#include "worker/backend/cuda/layers/memory_plan.h"

namespace monsoon::cuda {
namespace {

constexpr float kLossScale = 16384.0f;  // 2^14
constexpr float kScaleStep = 16.0f;

std::string Mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

std::vector<TensorSlot> FindGaps(const std::vector<LayerPlan>& layers, uint64_t floats) {
  std::vector<TensorSlot> used;
  for (const LayerPlan& layer : layers) {
    for (const TensorSlot& slot : {layer.weight, layer.bias}) {
      if (slot.size > 0) {
        used.push_back(slot);
      }
    }
  }
  used.push_back(TensorSlot{floats, 0});
  std::sort(used.begin(), used.end(),
            [](const TensorSlot& a, const TensorSlot& b) { return a.offset < b.offset; });
  std::vector<TensorSlot> gaps;
  uint64_t at = 0;
  for (const TensorSlot& slot : used) {
    if (slot.offset > at) {
      gaps.push_back(TensorSlot{at, slot.offset - at});
    }
    at = slot.offset + slot.size;
  }
  return gaps;
}

}  // namespace

Engine::Engine(std::vector<LayerPlan> layers, uint64_t parameter_floats,
               const EngineOptions& options)
    : plans_(std::move(layers)),
      options_(options),
      parameter_floats_(parameter_floats),
      classes_(plans_.back().output.size()),
      gaps_(FindGaps(plans_, parameter_floats)),
      inputs_of_(plans_.size() + 1) {
  const uint64_t need = PlanMemory(plans_, parameter_floats, 1, options.precision).total();
  if (options.memory_limit_bytes != 0 && need > options.memory_limit_bytes) {
    errors_.Add(
        ErrorLog::Kind::kOutOfMemory, "memory limit",
        "the model needs " + Mebibytes(need) + " MiB of the GPU for one sample, the limit is " +
            Mebibytes(options.memory_limit_bytes) + " MiB; raise it or use a smaller model");
    return;
  }
  if (!SelectDevice(options.device_index, errors_)) {
    return;
  }
  first_trained_ = plans_.size();
  for (size_t i = plans_.size(); i-- > 0;) {
    first_trained_ = plans_[i].weight.size > 0 ? i : first_trained_;
  }
  const uint64_t bytes = parameter_floats * sizeof(float);
  parameters_ = Buffer(Buffer::Place::kDevice, bytes, errors_);
  gradient_ = Buffer(Buffer::Place::kDevice, bytes, errors_);
  sums_ = Buffer(Buffer::Place::kDevice, sizeof(StepSums), errors_);
  if (IsHalf(options.precision)) {
    half_parameters_ = Buffer(Buffer::Place::kDevice, parameter_floats * sizeof(uint16_t), errors_);
  }
  pinned_sums_ = Buffer(Buffer::Place::kPinned, sizeof(StepSums), errors_);
  compute_ = std::make_unique<Stream>(errors_);
  upload_ = std::make_unique<Stream>(errors_);
  download_ = std::make_unique<Stream>(errors_);
  gemm_ = std::make_unique<Gemm>(*compute_, options.precision, options.fuse_bias);
  for (const LayerPlan& plan : plans_) {
    layers_.push_back(MakeLayer(plan, options.precision));
    transfers_.emplace_back(errors_);
  }
  vectors_done_ = std::make_unique<Event>(errors_);
  reads_done_ = std::make_unique<Event>(errors_);
  // Whole vectors are copied and updated, gaps included.
  compute_->Zero(gradient_.as<void>(), bytes);
  compute_->Zero(parameters_.as<void>(), bytes);
  compute_->Synchronize();
  made_ = errors_.ok();
}

// The device's own objects go while it is the thread's device, whatever has failed.
Engine::~Engine() {
  ErrorLog ignored;
  SelectDevice(options_.device_index, ignored);
}

bool Engine::Skips(size_t layer, bool training) const {
  return layers_[layer] == nullptr || (!training && plans_[layer].kind == LayerKind::kDropout);
}

bool Engine::Begin() {
  if (!made_) {
    return false;
  }
  errors_.ForgetOutOfMemory();
  errors_.SetLayer(nullptr);
  return SelectDevice(options_.device_index, errors_);
}

void Engine::Drain() {
  for (Stream* const stream : {compute_.get(), upload_.get(), download_.get()}) {
    stream->Drain();
  }
}

bool Engine::Prepare(uint64_t examples) {
  if (!Begin()) {
    return false;
  }
  if (examples <= capacity_) {
    return true;
  }
  const uint64_t need =
      PlanMemory(plans_, parameter_floats_, examples, options_.precision).total() + vector_bytes_;
  if (options_.memory_limit_bytes != 0 && need > options_.memory_limit_bytes) {
    errors_.Add(ErrorLog::Kind::kOutOfMemory, "memory limit",
                "a batch of " + std::to_string(examples) + " needs " + Mebibytes(need) +
                    " MiB of the GPU, the limit is " + Mebibytes(options_.memory_limit_bytes) +
                    " MiB; use a smaller batch or raise it");
    return false;
  }
  const uint64_t widest = WidestLayer(plans_);
  if (examples * widest > kMaxElements) {
    errors_.Add(ErrorLog::Kind::kOutOfMemory, "batch size",
                "a batch of " + std::to_string(examples) +
                    " has layers of more than 2^31 values; "
                    "use a smaller batch");
    return false;
  }
  // Graphs hold the old addresses. The old buffers go first.
  graphs_.clear();
  seen_.clear();
  capacity_ = 0;
  outputs_.clear();
  const auto allocate = [&](Buffer& buffer, Buffer::Place place, uint64_t bytes) {
    buffer = Buffer();
    buffer = Buffer(place, bytes, errors_);
  };
  const StagingLayout staging(examples, plans_.front().input.size());
  uint64_t workspace = 0;
  for (const auto& layer : layers_) {
    workspace = std::max(workspace, layer == nullptr ? 0 : layer->WorkspaceBytes(examples));
  }
  allocate(staging_, Buffer::Place::kDevice, staging.bytes);
  allocate(pinned_staging_, Buffer::Place::kPinned, staging.bytes);
  allocate(workspace_, Buffer::Place::kDevice, workspace);
  allocate(diffs_[0], Buffer::Place::kDevice, examples * widest * sizeof(float));
  allocate(diffs_[1], Buffer::Place::kDevice, examples * widest * sizeof(float));
  allocate(largest_, Buffer::Place::kDevice, examples * sizeof(Largest));
  allocate(row_sums_, Buffer::Place::kDevice, examples * sizeof(RowSums));
  allocate(losses_, Buffer::Place::kDevice, examples * sizeof(double));
  for (size_t i = 0; i < plans_.size(); ++i) {
    outputs_.push_back(layers_[i] == nullptr
                           ? Buffer()
                           : Buffer(Buffer::Place::kDevice,
                                    examples * plans_[i].output.size() * sizeof(float), errors_));
  }
  if (errors_.ok()) {
    capacity_ = examples;
  }
  return errors_.ok();
}

bool Engine::Train(const Samples& samples, const StepKey& key, std::span<float> gradient,
                   EngineResult* result) {
  for (const TensorSlot& gap : gaps_) {
    std::fill_n(gradient.begin() + static_cast<ptrdiff_t>(gap.offset), gap.size, 0.0f);
  }
  return Run(StepKind::kTrain, samples, key, gradient, result);
}

bool Engine::TrainOnDevice(const Samples& samples, const StepKey& key, EngineResult* result) {
  return Run(StepKind::kTrainOnDevice, samples, key, {}, result);
}

bool Engine::Evaluate(const Samples& samples, EngineResult* result) {
  return Run(StepKind::kEvaluate, samples, {}, {}, result);
}

bool Engine::Run(StepKind kind, const Samples& samples, const StepKey& key,
                 std::span<float> gradient, EngineResult* result) {
  if (!Prepare(samples.examples)) {
    return false;
  }
  if (kind == StepKind::kTrain) {
    gradient_out_ = gradient.data();
    download_to_ = IsPageLocked(gradient.data(), gradient.size_bytes())
                       ? gradient_out_
                       : WholeVector(pinned_gradient_);
  }
  const bool scaled = kind != StepKind::kEvaluate && options_.precision == Precision::kFloat16;
  Stage(samples, key);
  if (kind != StepKind::kEvaluate && std::exchange(gradient_read_, false)) {
    compute_->Wait(*reads_done_);
  }
  StepControl& control = *pinned_staging_.as<StepControl>();
  const StepSums& sums = *pinned_sums_.as<StepSums>();
  float scale = scaled ? kLossScale : 1.0f;
  while (true) {
    control.loss_scale = scale;
    control.inverse_loss_scale = 1.0f / scale;
    if (const CapturedStep* const step = FindGraph(kind, samples.examples)) {
      RunAsGraph(kind, *step);
    } else {
      RunOnStreams(kind, samples.examples);
    }
    if (!errors_.ok()) {
      // What is in flight may be the caller's memory.
      Drain();
      return false;
    }
    if (!scaled || sums.non_finite == 0 || scale <= 1.0f) {
      break;
    }
    scale = std::max(1.0f, scale / kScaleStep);
    ++repeated_steps_;
  }
  vectors_pending_ = false;  // the step came after it, and is over
  *result = EngineResult{sums.loss, sums.correct};
  return true;
}

void Engine::Stage(const Samples& samples, const StepKey& key) {
  const uint64_t input = plans_.front().input.size();
  const StagingLayout layout(samples.examples, input);
  char* block = pinned_staging_.as<char>();
  StepControl control = {};
  if (key.samples.empty()) {
    control.dropout_key = DropoutKey(key.seed, kDropoutStream | key.worker, key.step);
  } else {
    control.by_sample = 1;
    uint64_t* keys = reinterpret_cast<uint64_t*>(block + layout.sample_keys);
    for (size_t n = 0; n < key.samples.size(); ++n) {
      keys[n] = DropoutKey(key.seed, kSampleDropoutStream, key.samples[n]);
    }
  }
  std::memcpy(block, &control, sizeof(control));
  std::memcpy(block + layout.labels, samples.labels, samples.examples * sizeof(uint32_t));
  std::memcpy(block + layout.inputs, samples.inputs, samples.examples * input * sizeof(float));
}

Pass Engine::MakePass(uint64_t examples) {
  const StagingLayout layout(examples, plans_.front().input.size());
  char* block = staging_.as<char>();
  return Pass{*compute_,
              *gemm_,
              examples,
              parameters_.as<float>(),
              half_parameters_.as<uint16_t>(),
              gradient_.as<float>(),
              reinterpret_cast<StepControl*>(block),
              reinterpret_cast<uint64_t*>(block + layout.sample_keys),
              workspace_.as<char>()};
}

void Engine::EnqueueForward(uint64_t examples, bool training, bool overlap) {
  const StagingLayout layout(examples, plans_.front().input.size());
  compute_->CopyToDevice(staging_.as<void>(), pinned_staging_.as<void>(), layout.bytes);
  const Pass pass = MakePass(examples);
  inputs_of_[0] = reinterpret_cast<const float*>(staging_.as<char>() + layout.inputs);
  for (size_t i = 0; i < layers_.size(); ++i) {
    inputs_of_[i + 1] = inputs_of_[i];
    if (Skips(i, training)) {
      continue;
    }
    errors_.SetLayer(&plans_[i].name);
    if (overlap && plans_[i].weight.size > 0) {
      // The host copies it while the device computes the layers before.
      UploadLayer(i);
      compute_->Wait(transfers_[i].uploaded);
    }
    layers_[i]->Forward(pass, inputs_of_[i], outputs_[i].as<float>());
    inputs_of_[i + 1] = outputs_[i].as<float>();
  }
  errors_.SetLayer(nullptr);
  const LossArrays loss = {inputs_of_.back(),
                           reinterpret_cast<uint32_t*>(staging_.as<char>() + layout.labels),
                           pass.control,
                           largest_.as<Largest>(),
                           row_sums_.as<RowSums>(),
                           losses_.as<double>(),
                           sums_.as<StepSums>(),
                           training ? diffs_[0].as<float>() : nullptr};
  SoftmaxCrossEntropy(*compute_, loss, examples, classes_);
}

void Engine::EnqueueBackward(uint64_t examples, bool download) {
  const Pass pass = MakePass(examples);
  int current = 0;
  for (size_t i = layers_.size(); i-- > first_trained_;) {
    if (Skips(i, true)) {
      continue;
    }
    errors_.SetLayer(&plans_[i].name);
    // Nobody asks for the gradient of what lies before the first parameters.
    float* in_diff = i == first_trained_ ? nullptr : diffs_[1 - current].as<float>();
    layers_[i]->Backward(pass, inputs_of_[i], outputs_[i].as<float>(), diffs_[current].as<float>(),
                         in_diff);
    EnqueueGradientEnd(i, download);
    current = 1 - current;
  }
  errors_.SetLayer(nullptr);
}

void Engine::RunOnStreams(StepKind kind, uint64_t examples) {
  const bool download = kind == StepKind::kTrain;
  EnqueueForward(examples, kind != StepKind::kEvaluate, true);
  if (kind != StepKind::kEvaluate) {
    EnqueueBackward(examples, download);
  }
  compute_->CopyToHost(pinned_sums_.as<void>(), sums_.as<void>(), sizeof(StepSums));
  // The last layer's gradient comes first.
  for (size_t i = plans_.size(); download && i-- > first_trained_;) {
    if (plans_[i].weight.size > 0) {
      transfers_[i].downloaded.Synchronize();
      if (!errors_.ok()) {
        return;
      }
      CopyOut(i);
    }
  }
  compute_->Synchronize();
}

Engine::CapturedStep* Engine::FindGraph(StepKind kind, uint64_t examples) {
  const bool training = kind != StepKind::kEvaluate;
  const bool crosses = kind == StepKind::kTrain || outdated();
  if (!options_.graphs || !graph_failure_.empty() ||
      (crosses && parameter_floats_ > options_.graph_parameters)) {
    return nullptr;
  }
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const CapturedStep& step) {
    return step.examples == examples && step.training == training;
  });
  if (found != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, found);
    return &graphs_.front();
  }
  // First as it is: what CUDA loads at a first launch must not fall into the capture,
  // and a size that comes once is not worth one.
  const std::pair<uint64_t, bool> size(examples, training);
  if (std::find(seen_.begin(), seen_.end(), size) == seen_.end()) {
    seen_.push_front(size);
    if (seen_.size() > kMaxSeen) {
      seen_.pop_back();
    }
    return nullptr;
  }
  return Capture(training, examples);
}

Engine::CapturedStep* Engine::Capture(bool training, uint64_t examples) {
  const std::lock_guard<std::mutex> alone(CaptureMutex());
  compute_->BeginCapture();
  EnqueueForward(examples, training, false);
  if (training) {
    EnqueueBackward(examples, false);
  }
  compute_->CopyToHost(pinned_sums_.as<void>(), sums_.as<void>(), sizeof(StepSums));
  Graph graph = compute_->EndCapture();
  if (!errors_.ok()) {
    graph_failure_ = errors_.TakeCaptureError();
    graphs_.clear();
    return nullptr;
  }
  graphs_.push_front(CapturedStep{examples, training, std::move(graph)});
  if (graphs_.size() > kMaxGraphs) {
    graphs_.pop_back();
  }
  return &graphs_.front();
}

void Engine::RunAsGraph(StepKind kind, const CapturedStep& step) {
  UploadAll();
  // Uploads come in order: the last covers all.
  compute_->Wait(transfers_.back().uploaded);
  compute_->Launch(step.graph);
  // Not in the graph: where it goes is the caller's choice in each step.
  if (kind == StepKind::kTrain) {
    compute_->CopyToHost(download_to_, gradient_.as<void>(), parameter_floats_ * sizeof(float));
    crossed_bytes_ += parameter_floats_ * sizeof(float);
  }
  compute_->Synchronize();
  for (size_t i = 0; i < plans_.size() && kind == StepKind::kTrain && errors_.ok(); ++i) {
    CopyOut(i);
  }
}

std::string Engine::Fingerprint() const {
  constexpr const char* kNames[] = {"FLOAT32", "TF32", "BFLOAT16", "FLOAT16"};
  return "cuda " + DeviceFingerprint(options_.device_index) + " " +
         (gemm_ == nullptr ? "" : gemm_->Version()) + " " +
         kNames[static_cast<int>(options_.precision)];
}

}  // namespace monsoon::cuda
