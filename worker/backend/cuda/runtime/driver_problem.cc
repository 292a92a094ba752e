#include "worker/backend/cuda/runtime/driver_problem.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace monsoon::cuda {
namespace {

// cudaError_t's numbers, fixed by CUDA's interface.
constexpr int kInsufficientDriver = 35;
constexpr int kNoDevice = 100;

// The oldest driver of each toolkit's major version.
std::string OldestDriver(int runtime_version) {
  switch (runtime_version / 1000) {
    case 12:
      return "525";
    case 13:
      return "580";
    default:
      return "";
  }
}

std::string FirstLine(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DriverProblem Explain(const DriverAnswer& answer) {
  const std::string asked = " (cudaGetDeviceCount answered error " + std::to_string(answer.code) +
                            ": " + answer.text + ")";
  if (answer.code == kInsufficientDriver && answer.driver_version > 0) {
    const std::string driver = OldestDriver(answer.runtime_version);
    return {"the driver supports CUDA " + VersionText(answer.driver_version) +
                ", this build needs " + VersionText(answer.runtime_version) +
                ": update the driver" + (driver.empty() ? "" : " to " + driver + " or later") +
                ", or build with the " + std::to_string(answer.driver_version / 1000) +
                ".x toolkit" + asked,
            false};
  }
  if (answer.code == kInsufficientDriver && answer.gpu_seen) {
    return {
        "this machine has an NVIDIA GPU, but there is no driver: install it, or start the "
        "container with the GPU" +
            asked,
        false};
  }
  if (answer.code == kInsufficientDriver) {
    return {"there is no NVIDIA driver" + asked, true};
  }
  if (answer.code == kNoDevice || answer.code == 0) {
    return {"CUDA sees no GPU" + (answer.code == 0 ? "" : asked), true};
  }
  return {"CUDA cannot be used" + asked, false};
}

bool HasNvidiaGpu(const std::string& folder) {
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(folder, error)) {
    // Class 03: display controllers, GPUs for computing (3D) among them.
    if (FirstLine(device.path() / "vendor") == "0x10de" &&
        FirstLine(device.path() / "class").starts_with("0x03")) {
      return true;
    }
  }
  return false;
}

}  // namespace monsoon::cuda
