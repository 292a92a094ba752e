// EngineVectors: vectors of the model's size that stay on an Engine's device between its
// steps, and what is done with them there: sums of gradients, a local optimizer, what
// several devices exchange. So between a fetch and a push nothing crosses to the host.
// Plain C++ like the Engine.
//
// Addresses are the device's. Every call but the ones that say so only enqueues; an error
// shows in the engine's errors(), and no later call does anything then. What a call
// enqueues runs after the engine's last step and before its next one. Where
// Engine::SetParameters' values have not gone to the device yet, it waits until they have.
//
// Thread safety: none; calls and the engine's come one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/optimizer/optimizer_step.h"
#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

class EngineVectors {
 public:
  // `engine` must outlive this and all that it gives.
  explicit EngineVectors(Engine* engine);

  // Floats of the device.
  class Memory {
   public:
    Memory(Engine* engine, Buffer buffer);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    float* data() const { return buffer_.as<float>(); }

   private:
    Engine* const engine_;
    Buffer buffer_;
  };
  // Null, with the reason, where the device or its limit has no room: everything else
  // goes on as before. `values` are all `fill`.
  std::unique_ptr<Memory> Allocate(uint64_t floats, float fill, std::string* problem);

  // What steps compute with, and the gradient that the last one left.
  float* parameters() const { return engine_->parameters_.as<float>(); }
  float* gradient() const { return engine_->gradient_.as<float>(); }

  void Fill(float* to, uint64_t floats, float value);
  // to += from. Right after Engine::SetParameters, parts of the parameters as `to` are
  // added to as they arrive; `from` stays unchanged until the next step is over.
  void Add(const float* from, float* to, uint64_t floats);
  void Copy(const float* from, float* to, uint64_t floats);
  // One step on parameters() with gradient(). All vectors are of the model's size, and so is
  // each of the `slots` of the state, which lie one after the other.
  void Update(const OptimizerStep& step, float* state, int slots, float* moved, bool fresh);

  // Must come before the calls that read what is `other`'s; false, with the reason, without
  // room.
  bool PrepareFor(EngineVectors& other, std::string* problem);
  // gradient() += `theirs`, a vector of `other`'s device, which may be another one.
  void AddToGradient(const float* theirs, EngineVectors& other);
  // sum = weight * theirs, or adds that unless `fresh`; of doubles.
  void AddToSum(double weight, const float* theirs, EngineVectors& other, double* sum, bool fresh);
  void Round(const double* sum, float* to);
  // Of the model's size: see EncodeHalf in vector_ops.h.
  void Encode(HalfType type, const float* from, float* residual, uint16_t* to);
  // parameters() become the other's.
  void TakeParameters(EngineVectors& other);

  // Blocks until all is done.
  void Finish();

  // Begins to copy to the host. Page-locked memory is written by the device itself while
  // steps go on; other memory before this returns. Null after an error.
  std::unique_ptr<Event> Read(const float* from, float* to, uint64_t floats);

 private:
  // `theirs`, brought here if it is on another device; EndTheirs when it was read.
  const float* BeginTheirs(const float* theirs, EngineVectors& other);
  void EndTheirs(EngineVectors& other);
  // Before each call; false after an error.
  bool Begin();
  void Changed(const float* what);
  bool InParameters(const float* at) const;
  // Nothing may come to the parameters any more but by this.
  void FinishUploads();

  Engine* const engine_;
  std::unique_ptr<Memory> from_peer_;
  std::unique_ptr<Event> taken_;  // what another engine had was read
};

}  // namespace monsoon::cuda
