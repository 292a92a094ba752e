#include "worker/backend/cuda/device_probe.h"

#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "worker/backend/cuda/kernels/cublas_library.h"
#include "worker/backend/cuda/kernels/probe_kernels.h"
#include "worker/backend/cuda/runtime/device_query.h"
#include "worker/backend/cuda/runtime/error_log.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {
namespace {

std::string Probe(uint32_t device_index) {
  const DeviceQuery query = QueryDevices();
  if (query.count == 0) {
    return absl::StrCat("this machine has no usable GPU: ", query.problem);
  }
  if (device_index >= static_cast<uint32_t>(query.count)) {
    return absl::StrCat("there is no GPU ", device_index, "; CUDA sees ", query.count,
                        ", counted from 0");
  }
  const std::string gpu =
      absl::StrCat("GPU ", device_index, " (", DescribeDevice(device_index), ")");
  ErrorLog errors;
  SelectDevice(device_index, errors);
  Stream stream(errors);
  if (!errors.ok()) {
    return absl::StrCat(gpu, " cannot be used: ", errors.message());
  }
  const ProbeResult result = LaunchEmptyKernel(stream);
  if (result.no_code) {
    return absl::StrCat(gpu, ": this build has code for ", BuiltTargets(), " only (",
                        result.problem, "); build with a toolkit that knows this GPU");
  }
  if (!result.ran) {
    return absl::StrCat(gpu, " cannot be used: ", result.problem);
  }
  if (const CublasLibrary& cublas = CublasLibrary::Get(); !cublas.problem.empty()) {
    return absl::StrCat(gpu, ": cuBLAS cannot be loaded: ", cublas.problem,
                        "; install it, or add its folder to LD_LIBRARY_PATH");
  }
  return {};
}

}  // namespace

std::string ProbeDevice(uint32_t device_index) {
  static std::mutex mutex;
  static std::map<uint32_t, std::string> answers;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = answers.find(device_index);
  return found != answers.end() ? found->second
                                : answers.emplace(device_index, Probe(device_index)).first->second;
}

void SleepWhileWaiting(uint32_t device_index) {
  if (device_index < static_cast<uint32_t>(QueryDevices().count)) {
    UseBlockingWaits(device_index);
  }
}

}  // namespace monsoon::cuda
