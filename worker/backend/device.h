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

// AUTO is CUDA where it is built in and the device exists, else the CPU. CUDA
// is FailedPrecondition where it is not built in or the machine has no GPU or
// none of that index; the message says which and what to do.
absl::StatusOr<BackendKind> ChooseBackend(Device requested, uint32_t device_index);

}  // namespace monsoon
