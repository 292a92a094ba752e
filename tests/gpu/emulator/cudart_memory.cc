// libcudart's calls about memory and copies.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "tests/gpu/emulator/api.h"
#include "tests/gpu/emulator/copies.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFilledBytes = 1 << 20;

size_t WholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::map<void*, size_t>& PinnedSizes() {
  static auto* const sizes = new std::map<void*, size_t>;
  return *sizes;
}

// Before a call that may not be captured.
cudaError_t Problem(const char* call) {
  const cudaError_t device = DeviceProblem();
  return device != cudaSuccess ? device : CaptureProblem(call);
}

bool IsDeviceMemory(const void* memory) {
  return Find(reinterpret_cast<uint64_t>(memory), 1) != nullptr;
}

// Whether an asynchronous copy may take this host memory.
bool IsCopyable(const Stream& stream, const void* host, size_t bytes) {
  if (IsPinned(host, bytes)) {
    return true;
  }
  Report("host memory", Text("a copy of %zu bytes of stream %u from or to host memory that is not "
                             "page-locked",
                             bytes, stream.id));
  return false;
}

cudaError_t Copy(Stream& stream, void* to, const void* from, size_t bytes) {
  const bool to_device = IsDeviceMemory(to);
  const bool from_device = IsDeviceMemory(from);
  const auto target = reinterpret_cast<uint64_t>(to);
  const auto source = reinterpret_cast<uint64_t>(from);
  for (const auto& [is_device, address] : {std::pair{to_device, target}, {from_device, source}}) {
    if (is_device && Find(address, bytes) == nullptr) {
      Report("misuse", Text("a copy of %zu bytes reaches out of ", bytes) + Describe(address));
      return cudaErrorInvalidValue;
    }
  }
  if (to_device && from_device) {
    EnqueueOnDevice(stream, target, source, bytes);
    return cudaSuccess;
  }
  if (!to_device && !from_device) {
    Report("misuse", Text("a copy of %zu bytes between %s and %s", bytes, Describe(target).c_str(),
                          Describe(source).c_str()));
    return cudaErrorInvalidValue;
  }
  if (!IsCopyable(stream, to_device ? from : to, bytes)) {
    return cudaErrorInvalidValue;
  }
  if (to_device) {
    EnqueueToDevice(stream, target, from, bytes);
  } else {
    EnqueueToHost(stream, to, source, bytes);
  }
  return cudaSuccess;
}

cudaError_t AllocatePinned(void** memory, size_t bytes, const char* call) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = Problem(call); problem != cudaSuccess) {
    return Return(problem);
  }
  if (AllocationFails()) {
    return Return(cudaErrorMemoryAllocation);
  }
  *memory =
      mmap(nullptr, WholePages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*memory == MAP_FAILED) {
    return Return(cudaErrorMemoryAllocation);
  }
  std::memset(*memory, 0xFF, std::min(bytes, kFilledBytes));
  AddPinned(*memory, bytes, true);
  PinnedSizes()[*memory] = bytes;
  ++TheStats().pinned_allocations;
  return cudaSuccess;
}

void ReportIfPending(const void* memory, size_t bytes, const char* call) {
  if (HasPendingCopy(memory, bytes)) {
    Report("host memory", Text("%s of memory that a copy has still to read or write", call));
  }
}

}  // namespace
}  // namespace monsoon::emulator

using namespace monsoon::emulator;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = Problem("cudaMalloc"); problem != cudaSuccess) {
    return Return(problem);
  }
  const uint64_t address = AllocationFails() ? 0 : Allocate(bytes, ThisThread().device);
  if (address == 0) {
    return Return(cudaErrorMemoryAllocation);
  }
  *memory = reinterpret_cast<void*>(address);
  ++TheStats().allocations;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(TheMutex());
  if (memory == nullptr) {
    return cudaSuccess;
  }
  if (const cudaError_t problem = Problem("cudaFree"); problem != cudaSuccess) {
    return Return(problem);
  }
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (const Allocation* const allocation = Find(address, 1); allocation != nullptr) {
    RunAll(allocation->device);  // it waits for the device
  }
  return Return(Free(address) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return AllocatePinned(memory, bytes, "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  return AllocatePinned(memory, bytes, "cudaHostAlloc");
}

cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(TheMutex());
  if (memory == nullptr) {
    return cudaSuccess;
  }
  if (const cudaError_t problem = Problem("cudaFreeHost"); problem != cudaSuccess) {
    return Return(problem);
  }
  const auto found = PinnedSizes().find(memory);
  if (found == PinnedSizes().end()) {
    Report("misuse", "cudaFreeHost of what cudaMallocHost did not give");
    return Return(cudaErrorInvalidValue);
  }
  ReportIfPending(memory, found->second, "cudaFreeHost");
  RemovePinned(memory, true);
  munmap(memory, WholePages(found->second));
  PinnedSizes().erase(found);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = Problem("cudaHostRegister"); problem != cudaSuccess) {
    return Return(problem);
  }
  if (memory == nullptr || bytes == 0) {
    return Return(cudaErrorInvalidValue);
  }
  if (TheSettings().refuse_page_locks) {
    return Return(cudaErrorNotSupported);
  }
  if (OverlapsPinned(memory, bytes)) {
    return Return(cudaErrorHostMemoryAlreadyRegistered);
  }
  AddPinned(memory, bytes, false);
  PinnedSizes()[memory] = bytes;
  ++TheStats().page_locks;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = Problem("cudaHostUnregister"); problem != cudaSuccess) {
    return Return(problem);
  }
  const auto found = PinnedSizes().find(memory);
  if (found == PinnedSizes().end() || !RemovePinned(memory, false)) {
    Report("misuse", "cudaHostUnregister of what is not registered");
    return Return(cudaErrorHostMemoryNotRegistered);
  }
  ReportIfPending(memory, found->second, "cudaHostUnregister");
  PinnedSizes().erase(found);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DriverProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  if (const Allocation* const found = Find(reinterpret_cast<uint64_t>(pointer), 1);
      found != nullptr) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = found->device;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (IsPinned(pointer, 1)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaMemcpyAsync");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      (to_device != IsDeviceMemory(to) || from_device != IsDeviceMemory(from))) {
    Report("misuse", Text("cudaMemcpyAsync of kind %d from ", kind) +
                         Describe(reinterpret_cast<uint64_t>(from)) + " to " +
                         Describe(reinterpret_cast<uint64_t>(to)));
    return Return(cudaErrorInvalidValue);
  }
  return Return(Copy(*stream, to, from, bytes));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaMemcpyPeerAsync");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const Allocation* const target = Find(reinterpret_cast<uint64_t>(to), bytes);
  const Allocation* const source = Find(reinterpret_cast<uint64_t>(from), bytes);
  if (target == nullptr || source == nullptr || target->device != to_device ||
      source->device != from_device) {
    Report("misuse", Text("cudaMemcpyPeerAsync of %zu bytes from device %d to %d: ", bytes,
                          from_device, to_device) +
                         Describe(reinterpret_cast<uint64_t>(from)) + " to " +
                         Describe(reinterpret_cast<uint64_t>(to)));
    return Return(cudaErrorInvalidValue);
  }
  return Return(Copy(*stream, to, from, bytes));
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t handle) {
  const std::lock_guard lock(TheMutex());
  if (const cudaError_t problem = DeviceProblem(); problem != cudaSuccess) {
    return Return(problem);
  }
  Stream* const stream = FindStream(handle, "cudaMemsetAsync");
  if (stream == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (Find(address, bytes) == nullptr) {
    Report("misuse", Text("a memset of %zu bytes reaches out of ", bytes) + Describe(address));
    return Return(cudaErrorInvalidValue);
  }
  EnqueueSet(*stream, address, value, bytes);
  return cudaSuccess;
}

}  // extern "C"
