#include "worker/backend/cuda/layers/engine.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/launch_limits.h"
#include "worker/backend/cuda/kernels/loss_kernels.h"
#include "worker/backend/cuda/kernels/vector_kernels.h"

namespace monsoon::cuda {
namespace {

constexpr float kLossScale = 16384.0f;  // 2^14
constexpr float kScaleStep = 16.0f;

std::string Mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

std::vector<TensorSlot> FindGaps(const std::vector<LayerPlan>& layers, uint64_t floats) {
  std::vector<TensorSlot> used;
  for (const LayerPlan& layer : layers) {
    used.insert(used.end(), layer.tensors.begin(), layer.tensors.end());
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

std::vector<std::vector<TensorSlot>> FindOwnSlots(const std::vector<LayerPlan>& layers) {
  std::set<uint64_t> seen;
  std::vector<std::vector<TensorSlot>> own;
  for (const LayerPlan& layer : layers) {
    std::vector<TensorSlot>& slots = own.emplace_back();
    std::copy_if(layer.tensors.begin(), layer.tensors.end(), std::back_inserter(slots),
                 [&](const TensorSlot& slot) { return seen.insert(slot.offset).second; });
  }
  return own;
}

}  // namespace

Engine::Engine(EngineModel model, const EngineOptions& options)
    : model_(std::move(model)),
      plans_(model_.layers),
      buffers_(PlanBuffers(plans_, FindViews(plans_))),
      options_(options),
      parameter_floats_(model_.parameter_floats),
      own_slots_(FindOwnSlots(plans_)),
      gaps_(FindGaps(plans_, parameter_floats_)),
      values_(plans_.size() + 1) {
  const uint64_t need = PlanMemory(model_, 1, options.precision).total();
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
  const uint64_t bytes = parameter_floats_ * sizeof(float);
  parameters_ = Buffer(Buffer::Place::kDevice, bytes, errors_);
  gradient_ = Buffer(Buffer::Place::kDevice, bytes, errors_);
  sums_ = Buffer(Buffer::Place::kDevice, sizeof(StepSums), errors_);
  if (IsHalf(options.precision)) {
    half_parameters_ =
        Buffer(Buffer::Place::kDevice, parameter_floats_ * sizeof(uint16_t), errors_);
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

bool Engine::PassesOn(size_t layer, PassKind kind) const {
  return layers_[layer] == nullptr || layers_[layer]->PassesOn(kind);
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
  const uint64_t need = PlanMemory(model_, examples, options_.precision).total() + vector_bytes_;
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
  const BatchBuffers batch(model_, buffers_, layers_, examples);
  const auto allocate = [&](Buffer& buffer, Buffer::Place place, uint64_t bytes) {
    buffer = Buffer();
    buffer = Buffer(place, bytes, errors_);
  };
  const auto allocate_all = [&](std::vector<Buffer>& buffers, const std::vector<uint64_t>& sizes) {
    buffers.clear();
    for (const uint64_t bytes : sizes) {
      buffers.push_back(bytes == 0 ? Buffer() : Buffer(Buffer::Place::kDevice, bytes, errors_));
    }
  };
  allocate(staging_, Buffer::Place::kDevice, batch.staging);
  allocate(pinned_staging_, Buffer::Place::kPinned, batch.staging);
  allocate(workspace_, Buffer::Place::kDevice, batch.workspace);
  allocate(added_, Buffer::Place::kDevice, batch.added);
  allocate(largest_, Buffer::Place::kDevice, batch.rows * sizeof(Largest));
  allocate(row_sums_, Buffer::Place::kDevice, batch.rows * sizeof(RowSums));
  allocate(losses_, Buffer::Place::kDevice, batch.rows * sizeof(double));
  allocate_all(gradients_, batch.gradients);
  allocate_all(outputs_, batch.outputs);
  allocate_all(kept_, batch.kept);
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

bool Engine::CopyOutputs(std::span<float> outputs) {
  if (!Begin()) {
    return false;
  }
  // values_ may be of another pass: that of an evaluation may have been a graph's.
  size_t last = plans_.size();
  while (last > 0 && PassesOn(last - 1, PassKind::kEvaluate)) {
    last = plans_[last - 1].inputs.front();
  }
  if (pinned_outputs_.bytes() < outputs.size_bytes()) {
    pinned_outputs_ = Buffer(Buffer::Place::kPinned, outputs.size_bytes(), errors_);
  }
  if (!errors_.ok()) {
    return false;
  }
  compute_->CopyToHost(pinned_outputs_.as<void>(),
                       last == 0 ? values_[0] : outputs_[last - 1].as<float>(),
                       outputs.size_bytes());
  compute_->Synchronize();
  if (errors_.ok()) {
    std::memcpy(outputs.data(), pinned_outputs_.as<void>(), outputs.size_bytes());
  }
  return errors_.ok();
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
  const PassKind pass = kind == StepKind::kEvaluate ? PassKind::kEvaluate
                        : key.samples.empty()       ? PassKind::kTrain
                                                    : PassKind::kTrainFrozen;
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
    if (const CapturedStep* const step = FindGraph(kind, pass, samples.examples)) {
      RunAsGraph(kind, *step);
    } else {
      RunOnStreams(kind, pass, samples.examples);
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

Pass Engine::MakePass(uint64_t examples, PassKind kind) {
  const StagingLayout layout(model_, examples);
  char* block = staging_.as<char>();
  return Pass{*compute_,
              *gemm_,
              examples,
              parameters_.as<float>(),
              half_parameters_.as<uint16_t>(),
              gradient_.as<float>(),
              reinterpret_cast<StepControl*>(block),
              reinterpret_cast<uint64_t*>(block + layout.sample_keys),
              workspace_.as<char>(),
              kind};
}

void Engine::SetInputs(size_t layer) {
  inputs_.clear();
  for (const ValueIndex input : plans_[layer].inputs) {
    inputs_.push_back(values_[input]);
  }
}

float* Engine::GradientOf(ValueIndex value) const {
  const int buffer = buffers_.gradient[value];
  return buffer == kNoBuffer ? nullptr : gradients_[static_cast<size_t>(buffer)].as<float>();
}

void Engine::EnqueueForward(uint64_t examples, PassKind kind, bool overlap) {
  const StagingLayout layout(model_, examples);
  compute_->CopyToDevice(staging_.as<void>(), pinned_staging_.as<void>(), layout.bytes);
  Pass pass = MakePass(examples, kind);
  values_[0] = reinterpret_cast<const float*>(staging_.as<char>() + layout.inputs);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (PassesOn(i, kind)) {
      values_[i + 1] = values_[plans_[i].inputs.front()];
      continue;
    }
    errors_.SetLayer(&plans_[i].name);
    if (overlap && !plans_[i].tensors.empty()) {
      // The host copies it while the device computes the layers before.
      UploadLayer(i);
      compute_->Wait(transfers_[i].uploaded);
    }
    SetInputs(i);
    pass.kept = kept_[i].as<char>();
    layers_[i]->ForwardJoined(pass, inputs_, outputs_[i].as<float>());
    values_[i + 1] = outputs_[i].as<float>();
  }
  errors_.SetLayer(nullptr);
  EnqueueLoss(pass);
}

void Engine::EnqueueLoss(const Pass& pass) {
  const StagingLayout layout(model_, pass.examples);
  char* const block = staging_.as<char>();
  const ValueIndex last = static_cast<ValueIndex>(plans_.size());
  const LossArrays arrays = {values_.back(),
                             reinterpret_cast<uint32_t*>(block + layout.labels),
                             pass.control,
                             largest_.as<Largest>(),
                             row_sums_.as<RowSums>(),
                             losses_.as<double>(),
                             sums_.as<StepSums>(),
                             pass.kind == PassKind::kEvaluate ? nullptr : GradientOf(last),
                             reinterpret_cast<float*>(block + layout.targets),
                             reinterpret_cast<float*>(block + layout.weights)};
  ComputeLoss(*compute_, model_.loss, arrays, pass.examples);
}

void Engine::EnqueueBackward(uint64_t examples, PassKind kind, bool download) {
  Pass pass = MakePass(examples, kind);
  for (size_t i = layers_.size(); i-- > 0;) {
    // Nobody asks for the gradient of what lies before the first parameters.
    if (GradientOf(static_cast<ValueIndex>(i + 1)) == nullptr) {
      continue;
    }
    errors_.SetLayer(&plans_[i].name);
    pass.kept = kept_[i].as<char>();
    EnqueueLayerBackward(pass, i);
    EnqueueGradientEnd(i, download);
  }
  errors_.SetLayer(nullptr);
}

void Engine::EnqueueLayerBackward(const Pass& pass, size_t layer) {
  const LayerPlan& plan = plans_[layer];
  const std::vector<bool>& adds = buffers_.adds[layer];
  const float* const out_diff = GradientOf(static_cast<ValueIndex>(layer + 1));
  const auto values = [&](size_t input) {
    return pass.examples * plan.input_extents[input].size();
  };
  if (PassesOn(layer, pass.kind)) {
    float* const in_diff = GradientOf(plan.inputs.front());
    if (adds.front()) {
      Add(*compute_, AddVector{out_diff, in_diff}, values(0));
    } else if (in_diff != nullptr && in_diff != out_diff) {
      compute_->CopyOnDevice(in_diff, out_diff, values(0) * sizeof(float));
    }
    return;
  }
  SetInputs(layer);
  input_diffs_.clear();
  char* added = added_.as<char>();
  for (size_t j = 0; j < adds.size(); ++j) {
    input_diffs_.push_back(adds[j] ? reinterpret_cast<float*>(added) : GradientOf(plan.inputs[j]));
    added += adds[j] ? Aligned(values(j) * sizeof(float)) : 0;
  }
  layers_[layer]->BackwardJoined(pass, inputs_, outputs_[layer].as<float>(), out_diff,
                                 input_diffs_);
  for (size_t j = 0; j < adds.size(); ++j) {
    if (adds[j]) {
      Add(*compute_, AddVector{input_diffs_[j], GradientOf(plan.inputs[j])}, values(j));
    }
  }
}

void Engine::RunOnStreams(StepKind kind, PassKind pass, uint64_t examples) {
  const bool download = kind == StepKind::kTrain;
  EnqueueForward(examples, pass, true);
  if (pass != PassKind::kEvaluate) {
    EnqueueBackward(examples, pass, download);
  }
  compute_->CopyToHost(pinned_sums_.as<void>(), sums_.as<void>(), sizeof(StepSums));
  // The last layer's gradient comes first.
  for (size_t i = plans_.size(); download && i-- > 0;) {
    if (!SlotsOf(i).empty()) {
      transfers_[i].downloaded.Synchronize();
      if (!errors_.ok()) {
        return;
      }
      CopyOut(i);
    }
  }
  compute_->Synchronize();
}

Engine::CapturedStep* Engine::FindGraph(StepKind kind, PassKind pass, uint64_t examples) {
  const bool crosses = kind == StepKind::kTrain || outdated();
  if (!options_.graphs || !graph_failure_.empty() ||
      (crosses && parameter_floats_ > options_.graph_parameters)) {
    return nullptr;
  }
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const CapturedStep& step) {
    return step.examples == examples && step.pass == pass;
  });
  if (found != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, found);
    return &graphs_.front();
  }
  // First as it is: what CUDA loads at a first launch must not fall into the capture,
  // and a size that comes once is not worth one.
  const std::pair<uint64_t, PassKind> size(examples, pass);
  if (std::find(seen_.begin(), seen_.end(), size) == seen_.end()) {
    seen_.push_front(size);
    if (seen_.size() > kMaxSeen) {
      seen_.pop_back();
    }
    return nullptr;
  }
  return Capture(pass, examples);
}

Engine::CapturedStep* Engine::Capture(PassKind pass, uint64_t examples) {
  const std::lock_guard<std::mutex> alone(CaptureMutex());
  compute_->BeginCapture();
  EnqueueForward(examples, pass, false);
  if (pass != PassKind::kEvaluate) {
    EnqueueBackward(examples, pass, false);
  }
  compute_->CopyToHost(pinned_sums_.as<void>(), sums_.as<void>(), sizeof(StepSums));
  Graph graph = compute_->EndCapture();
  if (!errors_.ok()) {
    graph_failure_ = errors_.TakeCaptureError();
    graphs_.clear();
    return nullptr;
  }
  graphs_.push_front(CapturedStep{examples, pass, std::move(graph)});
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
