// TrainingSteps: a Downpour replica's work with its device and nothing else, as
// worker/downpour does it: parameters are fetched, n_push steps run, their sum is pushed.
// For what counts or times steps; no shard, no network, no data source. Plain C++.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/roofline.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/layers/engine.h"
#include "worker/backend/cuda/layers/engine_vectors.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda::testing {

class TrainingSteps {
 public:
  // Everything is allocated here, but what the first steps of a batch size do. With
  // `locked` the host's vectors are page-locked, as a worker's.
  TrainingSteps(const TestNetwork& network, const EngineOptions& options, const roofline::Way& way,
                bool locked, uint64_t examples);
  ~TrainingSteps();

  // From a fetch to the push, n_push steps. The push before it has arrived when it returns,
  // its own may be on its way, as in a worker that overlaps.
  void RunWindow();
  // Waits for the push.
  void Finish();

  // Empty, or the first error.
  std::string problem() const;
  const Engine& engine() const { return engine_; }

 private:
  std::span<float> Host(size_t vector);
  void RunOnDevice();
  void RunAndTransfer();

  const roofline::Way way_;
  const TestData data_;
  const uint64_t floats_;
  uint64_t step_ = 0;
  uint64_t window_ = 0;
  std::string problem_;
  // Parameters, and two gradients of which one is on its way.
  std::array<std::unique_ptr<LockedFloats>, 3> locked_;
  std::array<std::vector<float>, 3> paged_;
  Engine engine_;
  EngineVectors vectors_;
  std::unique_ptr<EngineVectors::Memory> sum_, state_, moved_[2];
  std::unique_ptr<Event> push_;
};

}  // namespace monsoon::cuda::testing
