// Which backend computes, and how to make it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"
#include "worker/nn/network.h"

namespace monsoon {

enum class BackendKind { kCpu, kReference, kCuda };

// What matrix products are computed in. Parameters, gradients and sums are
// float32 in each; see docs/gpu.md for what the others cost in digits.
enum class ComputePrecision { kFloat32, kTf32, kBfloat16, kFloat16 };

// "FLOAT32", "TF32", "BFLOAT16", "FLOAT16".
const char* Name(ComputePrecision precision);

struct NetworkOptions {
  // Compute threads of one step, set in the calling thread; at least 1. No
  // meaning for CUDA.
  int threads = 1;
  // CUDA only: the GPU, counted from 0.
  uint32_t device_index = 0;
  // CUDA only: what the network may take of the GPU's memory; 0: no limit. The
  // driver's context, some 500 MiB, is not counted.
  uint64_t memory_limit_bytes = 0;
  // On a CPU kTf32 computes float32 (it is a permission, not a demand), and
  // kBfloat16 and kFloat16 are refused.
  ComputePrecision precision = ComputePrecision::kFloat32;
};

// InvalidArgument for a model the backend cannot run, naming the layer, and for
// a precision it does not have; FailedPrecondition for CUDA where there is none
// (device.h tells before); ResourceExhausted, with need and limit, for a model
// over the memory limit.
absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(BackendKind kind, const Model& model,
                                                       const ParameterLayout& layout,
                                                       const NetworkOptions& options);

}  // namespace monsoon
