// libcudart's calls about devices, versions and errors.
#include <cstring>

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/launch.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {
namespace {

constexpr int kMultiprocessors = 8;
constexpr int kKilohertz = 1000000;
constexpr int kMemoryBusBits = 256;
constexpr int kCacheBytes = 4 << 20;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

unsigned device_flags = 0;

bool IsDevice(int device) { return device >= 0 && device < TheSettings().devices; }

// Of the current device, after which no call on it succeeds.
cudaError_t LastError() {
  const cudaError_t kept = ThisThread().last_error;
  const auto device = static_cast<cudaError_t>(DeviceError(ThisThread().device));
  return device != cudaSuccess ? device : kept;
}

}  // namespace
}  // namespace monsoon::emulator

using namespace monsoon::emulator;

extern "C" {

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(TheMutex());
  const cudaError_t code = LastError();
  ThisThread().last_error = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(TheMutex());
  return LastError();
}

const char* cudaGetErrorName(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) {
      return error.name;
    }
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) {
      return error.text;
    }
  }
  return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheSettings().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t problem = DriverProblem();
  *count = problem == cudaSuccess ? TheSettings().devices : 0;
  return Return(problem);
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DriverProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  if (!IsDevice(device)) {
    return Return(cudaErrorInvalidDevice);
  }
  ThisThread().device = device;
  return Return(DeviceProblem());
}

cudaError_t cudaGetDevice(int* device) {
  *device = ThisThread().device;
  return Return(DriverProblem());
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  device_flags = flags;
  return Return(DriverProblem());
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = device_flags;
  return Return(DriverProblem());
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = CaptureProblem("cudaDeviceSynchronize"); problem != cudaSuccess) {
    return Return(problem);
  }
  CheckNobodyCaptures("cudaDeviceSynchronize");
  for (Stream* stream : Streams()) {
    if (stream->device == ThisThread().device) {
      Synchronize(*stream);
    }
  }
  return Return(DeviceProblem());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t driver = DriverProblem();
  if (driver != cudaSuccess || !IsDevice(device)) {
    return Return(driver != cudaSuccess ? driver : cudaErrorInvalidDevice);
  }
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Monsoon CUDA emulator");
  properties->major = TheSettings().capability / 10;
  properties->minor = TheSettings().capability % 10;
  properties->totalGlobalMem = TheSettings().device_memory;
  properties->multiProcessorCount = kMultiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->sharedMemPerBlock = 48 << 10;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const cudaError_t driver = DriverProblem();
  if (driver != cudaSuccess || !IsDevice(device)) {
    return Return(driver != cudaSuccess ? driver : cudaErrorInvalidDevice);
  }
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = TheSettings().capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = TheSettings().capability % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      *value = kKilohertz;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = kMemoryBusBits;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = kCacheBytes;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      return cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrHostRegisterSupported:
      *value = 1;
      return cudaSuccess;
    default:
      Report("misuse", Text("cudaDeviceGetAttribute %d is not emulated", attribute));
      return Return(cudaErrorInvalidValue);
  }
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(TheMutex());
  *total = TheSettings().device_memory;
  *free = *total - BytesInUse(ThisThread().device);
  return Return(DeviceProblem());
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = IsDevice(device) && IsDevice(peer) && device != peer ? 1 : 0;
  return Return(DriverProblem());
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  const std::lock_guard lock(TheMutex());
  const int device = ThisThread().device;
  if (!IsDevice(peer) || peer == device || flags != 0) {
    return Return(cudaErrorInvalidDevice);
  }
  if (HasPeerAccess(device, peer)) {
    return Return(cudaErrorPeerAccessAlreadyEnabled);
  }
  EnablePeerAccess(device, peer);
  return Return(DeviceProblem());
}

}  // extern "C"
