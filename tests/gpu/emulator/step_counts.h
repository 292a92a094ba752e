// What a training step asks of a GPU, counted on the emulator: in place of speed, where no
// GPU is at hand.
//
// Thread safety: none; nothing else uses the emulated machine meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/roofline.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda::testing {

struct CountedWay {
  std::string name;
  roofline::Way way;
  bool locked = true;  // the host's vectors are page-locked
};

// A push after each step, whose parameters come up and whose gradient goes down, as all
// steps did once: with memory that the host must copy, and with page-locked memory. Then
// ten steps between a fetch and a push, without and with local updates.
const std::vector<CountedWay>& CountedWays();

// Of one step, in the mean of n_push steps from a fetch to its push, in steady state.
struct StepCounts {
  double vector_bytes = 0;         // of parameters and gradients, over PCIe
  double sample_bytes = 0;         // all else over PCIe
  double host_copied_vectors = 0;  // of the model's size, by the host
  double kernels = 0;
  double products = 0;
  double graph_launches = 0;
  double host_calls = 0;    // kernels, products, copies and memsets that are no graph's
  double allocations = 0;   // device or page-locked
  double instructions = 0;  // of PTX, by all threads
  double product_flops = 0;
  struct Kernel {
    double launches = 0;
    double instructions = 0;
  };
  std::map<std::string, Kernel> by_kernel;  // by operation: "Im2col<float, 3u>"
};

// The emulator's reports, or what the engine says, in `problem`; empty: none.
StepCounts CountSteps(const TestNetwork& network, const CountedWay& way, uint64_t examples,
                      std::string* problem, const EngineOptions& options = {});

// PTX instructions of im2col for a float of the columns; 0 without convolutions.
double InstructionsOfColumn(const TestNetwork& network, uint64_t examples,
                            const StepCounts& counts);

}  // namespace monsoon::cuda::testing
