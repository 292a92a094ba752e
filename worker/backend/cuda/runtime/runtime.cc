#include "worker/backend/cuda/runtime/runtime.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "worker/backend/cuda/runtime/error_log.h"

namespace monsoon::cuda {
namespace {

// Notes what is not success. A failed call also leaves its code as the "last
// error", which must not be taken for a later launch's.
bool Check(cudaError_t code, const char* what, ErrorLog& errors) {
  if (code == cudaSuccess) {
    return true;
  }
  cudaGetLastError();
  ErrorLog::Kind kind = ErrorLog::Kind::kDevice;
  if (code == cudaErrorMemoryAllocation) {
    kind = ErrorLog::Kind::kOutOfMemory;
  } else if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
             code == cudaErrorInvalidDevice) {
    kind = ErrorLog::Kind::kNotAvailable;
  }
  errors.Add(kind, what,
             "CUDA error " + std::to_string(code) + " (" + cudaGetErrorName(code) +
                 "): " + cudaGetErrorString(code));
  return false;
}

// Whether UseBlockingWaits was called for the thread's device.
bool WaitsBlock() {
  unsigned flags = 0;
  if (cudaGetDeviceFlags(&flags) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return (flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync;
}

}  // namespace

bool SelectDevice(uint32_t device_index, ErrorLog& errors) {
  return errors.ok() &&
         Check(cudaSetDevice(static_cast<int>(device_index)), "cudaSetDevice", errors);
}

void ReachPeer(uint32_t device_index, uint32_t peer) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, static_cast<int>(device_index), static_cast<int>(peer)) !=
          cudaSuccess ||
      can == 0 || cudaDeviceEnablePeerAccess(static_cast<int>(peer), 0) != cudaSuccess) {
    cudaGetLastError();  // it cannot, or does already
  }
}

void UseBlockingWaits(uint32_t device_index) {
  if (cudaSetDevice(static_cast<int>(device_index)) != cudaSuccess ||
      cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) != cudaSuccess) {
    cudaGetLastError();  // The device spins, or does not work and will say so.
  }
}

std::string DeviceFingerprint(uint32_t device_index) {
  cudaDeviceProp properties;
  int driver = 0;
  if (cudaGetDeviceProperties(&properties, static_cast<int>(device_index)) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess) {
    cudaGetLastError();
    return "unknown device";
  }
  return std::string(properties.name) + " sm_" + std::to_string(properties.major) +
         std::to_string(properties.minor) + " runtime " + std::to_string(CUDART_VERSION) +
         " driver " + std::to_string(driver);
}

Buffer::Buffer(Place place, size_t bytes, ErrorLog& errors) : place_(place) {
  if (!errors.ok()) {
    return;
  }
  bytes = bytes == 0 ? 1 : bytes;
  const bool done = place == Place::kDevice
                        ? Check(cudaMalloc(&data_, bytes), "cudaMalloc", errors)
                        : Check(cudaMallocHost(&data_, bytes), "cudaMallocHost", errors);
  if (done) {
    bytes_ = bytes;
  } else {
    data_ = nullptr;
  }
}

void Buffer::Free() {
  if (data_ != nullptr) {
    // After an error of the device this fails too, and there is nothing to do.
    place_ == Place::kDevice ? cudaFree(data_) : cudaFreeHost(data_);
  }
  data_ = nullptr;
  bytes_ = 0;
}

Buffer::~Buffer() { Free(); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      place_(other.place_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Free();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    place_ = other.place_;
  }
  return *this;
}

PageLock::PageLock(void* memory, size_t bytes) {
  if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess) {
    memory_ = memory;
  } else {
    cudaGetLastError();
  }
}

PageLock::~PageLock() {
  if (memory_ != nullptr && cudaHostUnregister(memory_) != cudaSuccess) {
    cudaGetLastError();  // the device is lost, and its locks with it
  }
}

bool IsPageLocked(const void* memory, size_t bytes) {
  const char* const begin = static_cast<const char*>(memory);
  for (const char* const at : {begin, begin + (bytes == 0 ? 0 : bytes - 1)}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    if (attributes.type != cudaMemoryTypeHost) {
      return false;
    }
  }
  return true;
}

Event::Event(ErrorLog& errors) : errors_(&errors) {
  if (!errors.ok()) {
    return;
  }
  const unsigned waits = WaitsBlock() ? cudaEventBlockingSync : cudaEventDefault;
  if (!Check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | waits), "cudaEventCreate",
             errors)) {
    handle_ = nullptr;
  }
}

Event::~Event() {
  if (handle_ != nullptr) {
    cudaEventDestroy(handle_);
  }
}

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), errors_(other.errors_) {}

void Event::Synchronize() {
  if (errors_->ok()) {
    Check(cudaEventSynchronize(handle_), "cudaEventSynchronize", *errors_);
  }
}

std::string Event::Await() const {
  const cudaError_t code = cudaEventSynchronize(handle_);
  if (code == cudaSuccess) {
    return {};
  }
  cudaGetLastError();
  return "CUDA error " + std::to_string(code) + " (" + cudaGetErrorName(code) +
         "): " + cudaGetErrorString(code);
}

Graph::~Graph() {
  if (handle_ != nullptr) {
    cudaGraphExecDestroy(handle_);
  }
}

Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::Stream(ErrorLog& errors) : errors_(&errors) {
  if (errors.ok() && !Check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
                            "cudaStreamCreate", errors)) {
    handle_ = nullptr;
  }
}

Stream::~Stream() {
  if (handle_ != nullptr) {
    // Buffers go next: nothing may still use them.
    cudaStreamSynchronize(handle_);
    cudaStreamDestroy(handle_);
  }
}

void Stream::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0 && errors_->ok()) {
    Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, handle_),
          "copy to the device", *errors_);
  }
}

void Stream::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes > 0 && errors_->ok()) {
    Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, handle_), "copy to the host",
          *errors_);
  }
}

void Stream::Zero(void* device, size_t bytes) {
  if (bytes > 0 && errors_->ok()) {
    Check(cudaMemsetAsync(device, 0, bytes, handle_), "cudaMemset", *errors_);
  }
}

void Stream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && errors_->ok()) {
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, handle_), "copy on the device",
          *errors_);
  }
}

void Stream::CopyFromPeer(void* to, uint32_t to_device, const void* from, uint32_t from_device,
                          size_t bytes) {
  if (bytes > 0 && errors_->ok()) {
    Check(cudaMemcpyPeerAsync(to, static_cast<int>(to_device), from, static_cast<int>(from_device),
                              bytes, handle_),
          "copy from another device", *errors_);
  }
}

void Stream::Record(Event& event) {
  if (errors_->ok()) {
    Check(cudaEventRecord(event.handle_, handle_), "cudaEventRecord", *errors_);
  }
}

void Stream::Wait(const Event& event) {
  if (errors_->ok()) {
    Check(cudaStreamWaitEvent(handle_, event.handle_, 0), "cudaStreamWaitEvent", *errors_);
  }
}

void Stream::Synchronize() {
  if (errors_->ok()) {
    Check(cudaStreamSynchronize(handle_), "the step's kernels and copies", *errors_);
  }
}

void Stream::Drain() {
  if (handle_ != nullptr && cudaStreamSynchronize(handle_) != cudaSuccess) {
    cudaGetLastError();
  }
}

void Stream::BeginCapture() {
  if (errors_->ok()) {
    // Thread-local: other replicas of the process may allocate meanwhile.
    Check(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal), "graph capture",
          *errors_);
  }
}

Graph Stream::EndCapture() {
  Graph graph;
  cudaGraph_t captured = nullptr;
  // Also after an error: a stream must not stay in capture.
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (handle_ == nullptr || cudaStreamIsCapturing(handle_, &status) != cudaSuccess ||
      status == cudaStreamCaptureStatusNone) {
    return graph;
  }
  const cudaError_t ended = cudaStreamEndCapture(handle_, &captured);
  if (!errors_->ok()) {
    cudaGetLastError();  // of the end: the first error counts
  } else if (Check(ended, "end of graph capture", *errors_)) {
    Check(cudaGraphInstantiate(&graph.handle_, captured, 0), "cudaGraphInstantiate", *errors_);
  }
  if (captured != nullptr) {
    cudaGraphDestroy(captured);
  }
  return graph;
}

void Stream::Launch(const Graph& graph) {
  if (errors_->ok()) {
    Check(cudaGraphLaunch(graph.handle_, handle_), "cudaGraphLaunch", *errors_);
  }
}

}  // namespace monsoon::cuda
