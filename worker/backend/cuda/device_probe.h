// Whether a GPU can compute with this build, found out before a job relies on it.
// In a build without CUDA no_device_probe.cc answers.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::cuda {

// Empty when the GPU runs this build's kernels and cuBLAS can be loaded, else the
// GPU, why not, and what to do. Asks once per process and device; the first call
// makes the device's context and loads cuBLAS, which takes some 100 ms and 500 MiB of
// the device, as the first job would.
std::string ProbeDevice(uint32_t device_index);

// A thread that waits for the device sleeps until the device wakes it, in place of
// asking again and again: it wakes later, but the core is free meanwhile. Call
// it before ProbeDevice.
void SleepWhileWaiting(uint32_t device_index);

}  // namespace monsoon::cuda
