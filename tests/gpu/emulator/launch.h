// Runs a kernel: every block, every thread, barriers and warps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/gpu/emulator/device.h"

namespace monsoon::emulator {

struct LaunchConfiguration {
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t dynamic_shared_bytes;
};

// Whether a GPU would take it; reported if not.
bool IsValid(const Kernel& kernel, const LaunchConfiguration& configuration);

// Throws DeviceFault. Order of blocks and threads: by the schedule.
void RunKernel(const Kernel& kernel, const LaunchConfiguration& configuration, int device,
               const std::vector<uint8_t>& parameters, uint32_t operation);

// cudaDeviceEnablePeerAccess.
void EnablePeerAccess(int device, int peer);
bool HasPeerAccess(int device, int peer);

}  // namespace monsoon::emulator
