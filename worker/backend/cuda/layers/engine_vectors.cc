#include "worker/backend/cuda/layers/engine_vectors.h"

#include <cstring>
#include <utility>

#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/vector_kernels.h"
#include "worker/backend/cuda/layers/memory_plan.h"

namespace monsoon::cuda {

EngineVectors::Memory::Memory(Engine* engine, Buffer buffer)
    : engine_(engine), buffer_(std::move(buffer)) {
  engine_->vector_bytes_ += buffer_.bytes();
}

EngineVectors::Memory::~Memory() {
  engine_->vector_bytes_ -= buffer_.bytes();
  ErrorLog ignored;  // the engine's may have an error, with which nothing is selected
  SelectDevice(engine_->options_.device_index, ignored);
  engine_->Drain();  // what is enqueued may still use it
}

EngineVectors::EngineVectors(Engine* engine) : engine_(engine) {
  if (Begin()) {
    taken_ = std::make_unique<Event>(engine_->errors_);
  }
}

bool EngineVectors::Begin() { return engine_->Begin(); }

bool EngineVectors::InParameters(const float* at) const {
  return at >= parameters() && at < parameters() + engine_->parameter_floats_;
}

std::unique_ptr<EngineVectors::Memory> EngineVectors::Allocate(uint64_t floats, float fill,
                                                               std::string* problem) {
  ErrorLog& errors = engine_->errors_;
  if (!Begin()) {
    *problem = errors.message();
    return nullptr;
  }
  const uint64_t bytes = floats * sizeof(float);
  const uint64_t limit = engine_->options_.memory_limit_bytes;
  const uint64_t need =
      PlanMemory(engine_->model_, engine_->capacity_ == 0 ? 1 : engine_->capacity_,
                 engine_->options_.precision)
          .total() +
      engine_->vector_bytes_ + bytes;
  if (limit != 0 && need > limit) {
    *problem = "sums and optimizer state on the GPU would make it " +
               std::to_string((need + (1 << 20) - 1) >> 20) + " MiB, the limit is " +
               std::to_string(limit >> 20) + " MiB";
    return nullptr;
  }
  Buffer buffer(Buffer::Place::kDevice, bytes, errors);
  if (!errors.ok()) {
    *problem = errors.message();
    errors.ForgetOutOfMemory();
    return nullptr;
  }
  auto memory = std::make_unique<Memory>(engine_, std::move(buffer));
  Fill(memory->data(), floats, fill);
  return memory;
}

void EngineVectors::Changed(const float* what) {
  engine_->vectors_pending_ = true;
  if (InParameters(what)) {
    engine_->CastParameters(*engine_->compute_, TensorSlot{0, engine_->parameter_floats_});
  }
}

void EngineVectors::FinishUploads() {
  if (engine_->outdated()) {
    engine_->UploadAll();
    engine_->compute_->Wait(engine_->transfers_.back().uploaded);
    // The host may change its values once the caller has returned.
    engine_->upload_->Synchronize();
  }
  if (std::exchange(engine_->reads_pending_, false)) {
    engine_->compute_->Wait(*engine_->reads_done_);
  }
}

void EngineVectors::Fill(float* to, uint64_t floats, float value) {
  if (Begin()) {
    FinishUploads();
    cuda::Fill(*engine_->compute_, FillVector{value, to}, floats);
    Changed(to);
  }
}

void EngineVectors::Add(const float* from, float* to, uint64_t floats) {
  if (!Begin()) {
    return;
  }
  if (InParameters(to) && engine_->outdated()) {
    engine_->late_adds_.push_back(
        {from, TensorSlot{static_cast<uint64_t>(to - parameters()), floats}});
    return;
  }
  FinishUploads();
  cuda::Add(*engine_->compute_, AddVector{from, to}, floats);
  Changed(to);
}

void EngineVectors::Copy(const float* from, float* to, uint64_t floats) {
  if (Begin()) {
    FinishUploads();
    engine_->compute_->CopyOnDevice(to, from, floats * sizeof(float));
    Changed(to);
  }
}

void EngineVectors::Update(const OptimizerStep& step, float* state, int slots, float* moved,
                           bool fresh) {
  if (Begin()) {
    FinishUploads();
    float* const second = slots > 1 ? state + engine_->parameter_floats_ : nullptr;
    cuda::Update(*engine_->compute_,
                 UpdateParameters{step, gradient(), parameters(), state, second, moved, fresh},
                 engine_->parameter_floats_);
    Changed(parameters());
  }
}

bool EngineVectors::PrepareFor(EngineVectors& other, std::string* problem) {
  const uint32_t there = other.engine_->options_.device_index;
  if (there == engine_->options_.device_index) {
    return true;
  }
  if (from_peer_ == nullptr) {
    from_peer_ = Allocate(engine_->parameter_floats_, 0.0f, problem);
  }
  if (from_peer_ == nullptr || !Begin()) {
    return false;
  }
  ReachPeer(engine_->options_.device_index, there);
  return true;
}

const float* EngineVectors::BeginTheirs(const float* theirs, EngineVectors& other) {
  FinishUploads();
  const uint32_t here = engine_->options_.device_index;
  const uint32_t there = other.engine_->options_.device_index;
  if (there == here) {
    return theirs;
  }
  engine_->compute_->CopyFromPeer(from_peer_->data(), here, theirs, there,
                                  engine_->parameter_floats_ * sizeof(float));
  return from_peer_->data();
}

void EngineVectors::EndTheirs(EngineVectors& other) {
  engine_->vectors_pending_ = true;
  if (&other == this) {
    return;
  }
  engine_->compute_->Record(*taken_);
  // Its next step must not write over what is being read.
  if (other.Begin()) {
    other.engine_->compute_->Wait(*taken_);
  }
}

void EngineVectors::AddToGradient(const float* theirs, EngineVectors& other) {
  if (Begin()) {
    theirs = BeginTheirs(theirs, other);
    cuda::Add(*engine_->compute_, AddVector{theirs, gradient()}, engine_->parameter_floats_);
    EndTheirs(other);
  }
}

void EngineVectors::AddToSum(double weight, const float* theirs, EngineVectors& other, double* sum,
                             bool fresh) {
  if (Begin()) {
    theirs = BeginTheirs(theirs, other);
    cuda::Add(*engine_->compute_, AddWeighted{weight, theirs, sum, fresh},
              engine_->parameter_floats_);
    EndTheirs(other);
  }
}

void EngineVectors::Round(const double* sum, float* to) {
  if (Begin()) {
    FinishUploads();
    cuda::Round(*engine_->compute_, RoundSum{sum, to}, engine_->parameter_floats_);
    Changed(to);
  }
}

void EngineVectors::Encode(HalfType type, const float* from, float* residual, uint16_t* to) {
  if (Begin()) {
    FinishUploads();
    cuda::Encode(*engine_->compute_, EncodeHalf{type, from, residual, to},
                 engine_->parameter_floats_);
    engine_->vectors_pending_ = true;
  }
}

void EngineVectors::TakeParameters(EngineVectors& other) {
  if (!other.Begin()) {
    return;
  }
  other.FinishUploads();
  Engine& from = *other.engine_;
  from.compute_->Record(*from.vectors_done_);
  if (!Begin()) {
    return;
  }
  // What was to come from the host does not come any more.
  for (Engine::Transfer& transfer : engine_->transfers_) {
    transfer.outdated = false;
  }
  engine_->late_adds_.clear();
  Stream& compute = *engine_->compute_;
  compute.Wait(*from.vectors_done_);
  compute.CopyFromPeer(parameters(), engine_->options_.device_index, other.parameters(),
                       from.options_.device_index, engine_->parameter_floats_ * sizeof(float));
  compute.Record(*taken_);
  Changed(parameters());
  if (other.Begin()) {
    from.compute_->Wait(*taken_);
    from.vectors_pending_ = true;
  }
}

void EngineVectors::Finish() {
  if (Begin()) {
    FinishUploads();
    engine_->compute_->Synchronize();
  }
}

std::unique_ptr<Event> EngineVectors::Read(const float* from, float* to, uint64_t floats) {
  if (!Begin()) {
    return nullptr;
  }
  FinishUploads();
  const uint64_t bytes = floats * sizeof(float);
  const bool locked = IsPageLocked(to, bytes);
  float* const target = locked ? to : engine_->WholeVector(engine_->pinned_gradient_);
  engine_->compute_->Record(*engine_->vectors_done_);
  engine_->download_->Wait(*engine_->vectors_done_);
  engine_->download_->CopyToHost(target, from, bytes);
  engine_->crossed_bytes_ += bytes;
  auto done = std::make_unique<Event>(engine_->errors_);
  engine_->download_->Record(*done);
  engine_->download_->Record(*engine_->reads_done_);
  engine_->reads_pending_ = true;
  engine_->gradient_read_ |= from >= gradient() && from < gradient() + engine_->parameter_floats_;
  if (!locked) {
    done->Synchronize();
    if (engine_->errors_.ok()) {
      std::memcpy(to, target, bytes);
      engine_->host_copied_bytes_ += bytes;
    }
  }
  return engine_->errors_.ok() ? std::move(done) : nullptr;
}

}  // namespace monsoon::cuda
