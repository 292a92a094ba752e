#include "worker/backend/device.h"

#include "absl/strings/str_cat.h"
#include "worker/backend/cuda/runtime/device_query.h"

namespace monsoon {

bool CudaBuiltIn() { return cuda::BuiltIn(); }

int CudaDeviceCount() { return cuda::QueryDevices().count; }

std::string DescribeCuda() { return cuda::DescribeBuild(); }

std::string DescribeCudaDevice(uint32_t device_index) { return cuda::DescribeDevice(device_index); }

absl::StatusOr<BackendKind> ChooseBackend(Device requested, uint32_t device_index) {
  if (requested == CPU) {
    return BackendKind::kCpu;
  }
  if (!cuda::BuiltIn()) {
    if (requested == AUTO) {
      return BackendKind::kCpu;
    }
    return absl::FailedPreconditionError(
        "CUDA is not built in: build with the CUDA toolkit installed (nvcc on PATH or in "
        "/usr/local/cuda), or use device: CPU or AUTO");
  }
  const cuda::DeviceQuery query = cuda::QueryDevices();
  if (device_index < static_cast<uint32_t>(query.count)) {
    return BackendKind::kCuda;
  }
  if (requested == AUTO) {
    return BackendKind::kCpu;
  }
  if (query.count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device CUDA: this machine has no usable GPU (", query.problem,
                     "); check nvidia-smi, or use device: CPU or AUTO"));
  }
  return absl::FailedPreconditionError(absl::StrCat("device CUDA: there is no GPU ", device_index,
                                                    "; CUDA sees ", query.count,
                                                    ", counted from 0"));
}

}  // namespace monsoon
