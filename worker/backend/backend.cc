#include "worker/backend/backend.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/backend/cpu/network.h"
#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/network.h"
#include "worker/backend/reference/network.h"
#include "worker/nn/network_plan.h"

namespace monsoon {
namespace {

cuda::Precision ToCuda(ComputePrecision precision) {
  switch (precision) {
    case ComputePrecision::kFloat32:
      return cuda::Precision::kFloat32;
    case ComputePrecision::kTf32:
      return cuda::Precision::kTf32;
    case ComputePrecision::kBfloat16:
      return cuda::Precision::kBfloat16;
    case ComputePrecision::kFloat16:
      return cuda::Precision::kFloat16;
  }
  return cuda::Precision::kFloat32;
}

}  // namespace

const char* Name(ComputePrecision precision) {
  switch (precision) {
    case ComputePrecision::kFloat32:
      return "FLOAT32";
    case ComputePrecision::kTf32:
      return "TF32";
    case ComputePrecision::kBfloat16:
      return "BFLOAT16";
    case ComputePrecision::kFloat16:
      return "FLOAT16";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(BackendKind kind, const Model& model,
                                                       const ParameterLayout& layout,
                                                       const NetworkOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.threads, " compute threads; at least 1 is needed"));
  }
  ASSIGN_OR_RETURN(NetworkPlan plan, NetworkPlan::Create(model, layout));
  if (kind == BackendKind::kCuda) {
    cuda::NetworkSettings settings;
    settings.device_index = options.device_index;
    settings.memory_limit_bytes = options.memory_limit_bytes;
    settings.precision = ToCuda(options.precision);
    return cuda::CreateNetwork(std::move(plan), settings);
  }
  if (options.precision != ComputePrecision::kFloat32 &&
      options.precision != ComputePrecision::kTf32) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision ", Name(options.precision),
                     " needs a GPU worker; a CPU computes FLOAT32 (use FLOAT32 or TF32, or device: "
                     "CUDA)"));
  }
  if (kind == BackendKind::kReference) {
    return std::unique_ptr<Network>(new reference::ReferenceNetwork(std::move(plan)));
  }
  return cpu::CpuNetwork::Create(std::move(plan), options.threads);
}

}  // namespace monsoon
