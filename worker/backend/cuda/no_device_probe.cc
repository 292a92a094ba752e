// In place of device_probe.cc in a build without the CUDA toolkit.
#include "worker/backend/cuda/device_probe.h"

namespace monsoon::cuda {

std::string ProbeDevice(uint32_t /*device_index*/) { return "CUDA is not built in"; }

void SleepWhileWaiting(uint32_t /*device_index*/) {}

}  // namespace monsoon::cuda
