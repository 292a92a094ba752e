// Roofline model: an ESTIMATE of how long a training step takes on a GPU, from published
// figures of the GPU and from plain arithmetic on the network. No measurement enters it.
//
//   step = sum over layers and directions of max(flops / peak, bytes / memory bandwidth)
//        + launches x a cost
//   and the copies over PCIe, which hide behind that or come on top of it.
//
// It leaves out what a kernel does not reach of these rates, and so is what a step could
// take at best but for the launches, whose cost is assumed and not published. Plain C++.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/runtime/device_rates.h"
#include "worker/nn/layer_plan.h"

namespace monsoon::roofline {

// Rates are per second, dense (without sparsity).
struct Gpu {
  std::string name;
  double float32 = 0;   // flops
  double tf32 = 0;      // by tensor cores; 0: computed as float32
  double bfloat16 = 0;  // 0: not computed
  double float16 = 0;
  double memory = 0;      // bytes
  double cache = 0;       // L2, bytes
  double pcie = 0;        // bytes in one direction
  std::string pcie_name;  // "5.0 x16"
  std::string source;     // of the figures, in words
};

// H100 SXM, A100 80GB SXM, T4.
const std::vector<Gpu>& PublishedGpus();
// By the device's own name ("NVIDIA H100 80GB HBM3"); null: unknown.
const Gpu* FindGpu(const std::string& device_name);

// Of a GPU that is not in the list, by what it says of itself. Its tensor cores' rates are
// those of its compute capability, and PCIe is assumed.
Gpu FromRates(const cuda::DeviceRates& rates);

// How a replica works: what it does besides its steps.
struct Way {
  uint32_t n_push = 1;        // a fetch and a push every so many steps
  bool on_device = true;      // sums stay there; else parameters and gradient cross each step
  bool local_update = false;  // Adagrad, on the device
};

// A pass of a layer, or of all parameters.
struct Work {
  std::string name;  // "dense1 forward"
  double flops = 0;  // of matrix products, two for each multiplication and addition
  double bytes = 0;  // read and written in the GPU's memory
  uint32_t kernels = 0;
  uint32_t products = 0;
};

// Of one step in the mean. `cache` as in Gpu: what convolutions write and read again within
// it does not count.
std::vector<Work> WorkOfStep(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                             uint64_t examples, cuda::Precision precision, const Way& way,
                             double cache);

// Over PCIe in one step in the mean; samples and results are told apart from vectors of the
// model's size.
struct Crossing {
  double parameters = 0;  // up
  double gradients = 0;   // down
  double samples = 0;     // up
};
Crossing CrossingOfStep(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                        uint64_t examples, const Way& way);

// Assumed, not published: what a kernel of next to no work takes, one after the other.
inline constexpr double kLaunchSeconds = 4e-6;
inline constexpr double kGraphLaunchSeconds = 2e-6;  // within a graph

// Seconds of one step, all ESTIMATES.
struct Estimate {
  double compute = 0;   // the sum over layers of the larger of...
  double flops = 0;     // ...flops / peak, and...
  double memory = 0;    // ...bytes / bandwidth, both also summed alone
  double launches = 0;  // what they cost
  // Both directions, one after the other where a step takes parameters up and its gradient
  // down; else of the larger, as a push goes down beside the next fetch.
  double pcie = 0;
  double Overlapped() const;
  double Serial() const;  // nothing hides behind anything
};
// 0 in all: the GPU does not compute the precision.
Estimate EstimateStep(const Gpu& gpu, const std::vector<LayerPlan>& layers,
                      uint64_t parameter_floats, uint64_t examples, cuda::Precision precision,
                      const Way& way);

}  // namespace monsoon::roofline
