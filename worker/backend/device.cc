#include "worker/backend/device.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "worker/backend/cuda/device_probe.h"
#include "worker/backend/cuda/runtime/device_query.h"

namespace monsoon {
namespace {

absl::Status Refused(const std::string& problem) {
  return absl::FailedPreconditionError(
      absl::StrCat("device CUDA: ", problem, "; or use device: CPU or AUTO"));
}

std::string WaitWish() {
  const char* const value = std::getenv("MONSOON_CUDA_WAIT");
  return value == nullptr ? "" : value;
}

// What is wrong with the first GPU, and with the others of the replicas.
struct Problems {
  std::string first;
  std::string others;
};

Problems ProbeDevices(uint32_t device_index, uint32_t replicas, uint32_t count) {
  const bool sleep = WaitsSleep(std::thread::hardware_concurrency(), replicas, WaitWish());
  Problems problems;
  for (uint32_t i = 0; i < std::min(replicas, std::max(1u, count)); ++i) {
    // A device_index that does not exist is told as it is.
    const uint32_t device = i == 0 ? device_index : (device_index + i) % count;
    if (sleep) {
      cuda::SleepWhileWaiting(device);
    }
    const std::string problem = cuda::ProbeDevice(device);
    if (i == 0) {
      problems.first = problem;
      if (!problem.empty()) {
        break;
      }
    } else if (!problem.empty()) {
      absl::StrAppend(&problems.others, problems.others.empty() ? "" : "; ", problem);
    }
  }
  return problems;
}

}  // namespace

bool CudaBuiltIn() { return cuda::BuiltIn(); }

int CudaDeviceCount() { return cuda::QueryDevices().count; }

std::string DescribeCuda() { return cuda::DescribeBuild(); }

std::string DescribeCudaDevice(uint32_t device_index) { return cuda::DescribeDevice(device_index); }

absl::StatusOr<BackendChoice> ChooseBackend(Device requested, uint32_t device_index,
                                            uint32_t replicas) {
  if (requested == CPU) {
    return BackendChoice{};
  }
  if (!cuda::BuiltIn()) {
    if (requested == AUTO) {
      return BackendChoice{};
    }
    return absl::FailedPreconditionError(
        "CUDA is not built in: build with the CUDA toolkit installed (nvcc on PATH or in "
        "/usr/local/cuda), or use device: CPU or AUTO");
  }
  const cuda::DeviceQuery query = cuda::QueryDevices();
  const Problems problems =
      ProbeDevices(device_index, replicas, static_cast<uint32_t>(query.count));
  const std::string& problem = problems.first.empty() ? problems.others : problems.first;
  if (problem.empty()) {
    return BackendChoice{BackendKind::kCuda, {}, false};
  }
  if (requested == CUDA) {
    return Refused(problem);
  }
  if (problems.first.empty()) {
    return BackendChoice{BackendKind::kCuda, absl::StrCat("a replica is left out: ", problem),
                         true};
  }
  return BackendChoice{BackendKind::kCpu, problem, query.count > 0 || !query.expected};
}

bool WaitsSleep(uint32_t cores, uint32_t replicas, const std::string& wish) {
  if (wish == "spin" || wish == "sleep") {
    return wish == "sleep";
  }
  return cores < 2 * replicas + 2;
}

}  // namespace monsoon
