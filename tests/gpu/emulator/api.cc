#include "tests/gpu/emulator/api.h"

#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {

ThreadState& ThisThread() {
  static thread_local ThreadState state;
  return state;
}

cudaError_t Return(cudaError_t code) {
  if (code != cudaSuccess) {
    ThisThread().last_error = code;
  }
  return code;
}

cudaError_t DriverProblem() {
  const Settings& settings = TheSettings();
  if (!settings.driver || settings.driver_version / 1000 < CUDART_VERSION / 1000) {
    return cudaErrorInsufficientDriver;
  }
  return settings.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t DeviceProblem() {
  const cudaError_t driver = DriverProblem();
  return driver != cudaSuccess ? driver
                               : static_cast<cudaError_t>(DeviceError(ThisThread().device));
}

cudaError_t CaptureProblem(const char* call) {
  Stream* const capturing = ThisThread().capturing;
  if (capturing == nullptr) {
    return cudaSuccess;
  }
  Report("capture", Text("%s while the thread captures stream %u", call, capturing->id));
  capturing->capture_broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

void CheckNobodyCaptures(const char* call) {
  for (const Stream* stream : Streams()) {
    if (stream->capturing && stream->device == ThisThread().device) {
      Report("capture",
             Text("%s, which waits for the device, while stream %u captures", call, stream->id));
    }
  }
}

Stream* FindStream(cudaStream_t handle, const char* call) {
  auto* const stream = reinterpret_cast<Stream*>(handle);
  if (!IsStream(stream)) {
    Report("misuse", Text("%s with %s", call,
                          handle == nullptr ? "the default stream" : "a stream that is not there"));
    return nullptr;
  }
  if (stream->device != ThisThread().device) {
    Report("misuse", Text("%s with stream %u of device %d while device %d is selected", call,
                          stream->id, stream->device, ThisThread().device));
  }
  return stream;
}

Event* FindEvent(cudaEvent_t handle, const char* call) {
  auto* const event = reinterpret_cast<Event*>(handle);
  if (!IsEvent(event)) {
    Report("misuse", Text("%s with an event that is not there", call));
    return nullptr;
  }
  return event;
}

bool AllocationFails() {
  static uint64_t count = 0;
  return ++count == TheSettings().fail_allocation;
}

}  // namespace monsoon::emulator
