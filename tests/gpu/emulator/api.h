// What the parts of the emulated C interface (cudart_*.cc, cublas.cc) share: the state of
// the calling thread, and what each call checks first.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>

#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/streams.h"

namespace monsoon::emulator {

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  Stream* capturing = nullptr;  // the stream whose capture this thread began
};
ThreadState& ThisThread();

// Kept as the thread's last error, if it is one.
cudaError_t Return(cudaError_t code);

// Whether a driver answers, and whether the current device still does.
cudaError_t DriverProblem();
cudaError_t DeviceProblem();

// Reported, and the end of the capture, where this thread captures.
cudaError_t CaptureProblem(const char* call);
// Reported where any stream of the current device captures: the call waits for the device.
void CheckNobodyCaptures(const char* call);

// The stream behind a handle, of the current device; nullptr and reported otherwise.
Stream* FindStream(cudaStream_t handle, const char* call);
Event* FindEvent(cudaEvent_t handle, const char* call);

// True once, for the allocation that MONSOON_EMULATOR_FAIL_ALLOCATION names.
bool AllocationFails();

}  // namespace monsoon::emulator
