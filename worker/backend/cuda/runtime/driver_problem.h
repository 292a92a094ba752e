// Why CUDA sees no GPU, in words that say what to do. Plain arithmetic and text,
// tested without CUDA.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <string>

namespace monsoon::cuda {

// "13.0" for 13000: CUDART_VERSION and cudaDriverGetVersion count 1000 * major +
// 10 * minor.
std::string VersionText(int version);

// What cudaGetDeviceCount and the machine say.
struct DriverAnswer {
  int code = 0;             // cudaGetDeviceCount's, as a cudaError_t
  std::string text;         // CUDA's words for it
  int driver_version = 0;   // what the driver supports; 0: there is none
  int runtime_version = 0;  // of this build
  bool gpu_seen = false;    // HasNvidiaGpu()
};

struct DriverProblem {
  std::string text;
  // A machine without GPUs, or one whose GPUs are hidden on purpose: nobody needs to
  // act. Otherwise somebody will want to know.
  bool expected = false;
};

DriverProblem Explain(const DriverAnswer& answer);

// Whether the machine has an NVIDIA GPU on its PCI bus, with a driver or not.
// `folder` is for tests.
bool HasNvidiaGpu(const std::string& folder = "/sys/bus/pci/devices");

}  // namespace monsoon::cuda
