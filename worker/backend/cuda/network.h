// The CUDA backend's Network: engine.h with the checks and errors of the
// interface. In a build without CUDA no_network.cc refuses.
//
// Errors beside Network's own: ResourceExhausted for a batch over the memory
// limit or the device's memory (a smaller one may still work), Internal for an
// error of the device, with layer, operation and CUDA's words. After that one
// the GPU's contents are lost and every later call answers the same: the replica
// must leave its job and say why.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"

namespace monsoon::cuda {

struct NetworkSettings {
  uint32_t device_index = 0;
  uint64_t memory_limit_bytes = 0;  // 0: none
  Precision precision = Precision::kFloat32;
};

// FailedPrecondition where there is no CUDA, no such device, no code for it, no cuBLAS,
// or a precision that it does not compute: another call would answer the same.
// ResourceExhausted for a model over the memory limit.
absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(NetworkPlan plan,
                                                       const NetworkSettings& settings);

}  // namespace monsoon::cuda
