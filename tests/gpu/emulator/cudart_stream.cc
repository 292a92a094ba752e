// libcudart's calls about streams, events, captures and graphs.
#include <utility>

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {
namespace {

// A stream that captures must not be waited for.
cudaError_t WaitProblem(Stream& stream, const char* call) {
  if (!stream.capturing) {
    return cudaSuccess;
  }
  Report("capture", Text("%s of stream %u, which captures", call, stream.id));
  stream.capture_broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace
}  // namespace monsoon::emulator

using namespace monsoon::emulator;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  if (flags != cudaStreamNonBlocking) {
    Report("misuse", "a stream that waits for the default stream");
  }
  *handle = reinterpret_cast<cudaStream_t>(NewStream(ThisThread().device));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(handle, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return Return(DriverProblem());
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  Stream* const stream = FindStream(handle, "cudaStreamDestroy");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  DestroyStream(stream);
  return Return(DeviceProblem());
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaStreamSynchronize");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t problem = WaitProblem(*stream, "cudaStreamSynchronize");
      problem != cudaSuccess) {
    return Return(problem);
  }
  ++TheStats().host_waits;
  Synchronize(*stream);
  return Return(DeviceProblem());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  Stream* const stream = FindStream(handle, "cudaStreamQuery");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t problem = WaitProblem(*stream, "cudaStreamQuery"); problem != cudaSuccess) {
    return Return(problem);
  }
  if (!Poll(*stream, stream->enqueued)) {
    return cudaErrorNotReady;
  }
  Synchronize(*stream);
  return Return(DeviceProblem());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned /*flags*/) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  *handle = reinterpret_cast<cudaEvent_t>(NewEvent(ThisThread().device));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const std::lock_guard lock(TheMutex());
  Event* const event = FindEvent(handle, "cudaEventDestroy");
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  DestroyEvent(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaEventRecord");
  Event* const event = FindEvent(event_handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (event->device != stream->device) {
    Report("misuse", Text("an event of device %d recorded in stream %u of device %d", event->device,
                          stream->id, stream->device));
    return Return(cudaErrorInvalidResourceHandle);
  }
  RecordEvent(*stream, *event);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  const Event* const event = FindEvent(handle, "cudaEventSynchronize");
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (event->captured_in != nullptr) {
    Report("capture", "the host waits for an event that was last recorded in a capture");
    return Return(cudaErrorCapturedEvent);
  }
  ++TheStats().host_waits;
  Synchronize(*event);
  return Return(DeviceProblem());
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const std::lock_guard lock(TheMutex());
  const Event* const event = FindEvent(handle, "cudaEventQuery");
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (event->captured_in != nullptr) {
    Report("capture", "the host asks for an event that was last recorded in a capture");
    return Return(cudaErrorCapturedEvent);
  }
  if (event->stream != nullptr && IsStream(event->stream) &&
      !Poll(*event->stream, event->position)) {
    return cudaErrorNotReady;
  }
  Synchronize(*event);
  return Return(DeviceProblem());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned /*flags*/) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaStreamWaitEvent");
  const Event* const event = FindEvent(event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (stream->capturing && event->captured_in == stream) {
    return cudaSuccess;
  }
  if (stream->capturing || event->captured_in != nullptr) {
    Report("capture",
           Text("stream %u waits for an event across the border of a capture", stream->id));
    stream->capture_broken = true;
    return Return(cudaErrorStreamCaptureIsolation);
  }
  WaitForEvent(*stream, *event);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaLaunchHostFunc");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  Enqueue(*stream, "host function", [=]() -> Run { return [=](uint32_t) { function(argument); }; });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (mode != cudaStreamCaptureModeThreadLocal) {
    Report("capture", "a capture that another thread's allocation would end");
  }
  if (stream->capturing || ThisThread().capturing != nullptr) {
    Report("capture", Text("stream %u begins a capture within one", stream->id));
    return Return(cudaErrorStreamCaptureUnsupported);
  }
  stream->capturing = true;
  stream->capture_broken = false;
  stream->captured.clear();
  ThisThread().capturing = stream;
  ++TheStats().captures;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(TheMutex());
  const Stream* const stream = FindStream(handle, "cudaStreamIsCapturing");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  *status = !stream->capturing       ? cudaStreamCaptureStatusNone
            : stream->capture_broken ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::lock_guard lock(TheMutex());
  *graph = nullptr;
  Stream* const stream = FindStream(handle, "cudaStreamEndCapture");
  if (stream == nullptr || !stream->capturing) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  stream->capturing = false;
  ThisThread().capturing = nullptr;
  std::vector<Recorded> captured = std::exchange(stream->captured, {});
  if (stream->capture_broken) {
    return Return(cudaErrorStreamCaptureInvalidated);
  }
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(captured)});
  return Return(DeviceProblem());
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  const std::lock_guard lock(TheMutex());
  static uint64_t count = 0;
  if (++count == TheSettings().fail_instantiate) {
    return Return(cudaErrorMemoryAllocation);
  }
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return Return(DeviceProblem());
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaGraphLaunch");
  if (stream == nullptr || executable == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (stream->capturing) {
    Report("capture", Text("a graph launched into stream %u, which captures", stream->id));
    return Return(cudaErrorStreamCaptureUnsupported);
  }
  ++TheStats().graph_launches;
  LaunchGraph(*stream, *reinterpret_cast<Graph*>(executable));
  return cudaSuccess;
}

}  // extern "C"
