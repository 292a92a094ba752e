// Which device a worker computes on. What is built in, what the machine has,
// and what a cluster file's `device` comes to on it.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "worker/backend/backend.h"

namespace monsoon {

// Whether this binary has the CUDA backend.
bool CudaBuiltIn();

// GPUs that CUDA sees; 0 without the build, a driver or a GPU. The first call
// loads the driver, some 100 ms where there is one.
int CudaDeviceCount();

// "CUDA 13.0 built in for sm_80, sm_90, PTX compute_90", or "CUDA is not built
// in".
std::string DescribeCuda();

// What device `device_index` is, for a log line: "NVIDIA H100 80GB HBM3, sm_90,
// 79 GiB"; empty when there is none.
std::string DescribeCudaDevice(uint32_t device_index);

struct BackendChoice {
  BackendKind kind = BackendKind::kCpu;
  // What AUTO found wrong: why there is no GPU, or which one is left out. Empty: nothing.
  std::string note;
  // Somebody will want to mend it: an old driver, a GPU that this build has no code
  // for. Otherwise the machine simply has no GPU.
  bool is_warning = false;
};

// AUTO is CUDA where it is built in and GPU `device_index` can compute, else the CPU.
// CUDA is FailedPrecondition where it is not built in or one of the GPUs cannot
// compute; the message says which, why and what to do. Replica i takes GPU
// device_index + i, modulo their number, and each is tried: see ProbeDevice.
absl::StatusOr<BackendChoice> ChooseBackend(Device requested, uint32_t device_index,
                                            uint32_t replicas = 1);

// Whether threads that wait for a GPU should sleep: a spinning one takes a core from
// those who read data, push and fetch. Two cores a replica and two for the rest of the
// host are enough to spin. `wish` is MONSOON_CUDA_WAIT: "spin" and "sleep" decide.
bool WaitsSleep(uint32_t cores, uint32_t replicas, const std::string& wish);

}  // namespace monsoon
