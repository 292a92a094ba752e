// The CUDA runtime as this backend uses it: buffers, streams, events and graphs
// that free themselves and note every return code in an ErrorLog. No CUDA type
// shows. Two implementations: runtime.cc (CUDA), and host_runtime.cc, a
// stand-in for tests on machines without a GPU.
//
// Streams run their work in order; work in different streams is ordered only by
// events. Calls that say so block; the others only enqueue. All are skipped once
// the ErrorLog has an error. An object's ErrorLog must outlive it.
//
// Thread safety: none. A thread must SelectDevice before it uses what belongs
// to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

// CUDA's own, named here so that no header of CUDA's is needed.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace monsoon::cuda {

class ErrorLog;

// False, with an error noted, when there is no such device.
bool SelectDevice(uint32_t device_index, ErrorLog& errors);

// Lets the thread's device reach the memory of `peer` by itself, where the machine can.
// Without it peer copies go by way of the host.
void ReachPeer(uint32_t device_index, uint32_t peer);

// Threads of the process that wait for the device sleep in place of spinning; for
// events that are made from here on. As far as the device takes it.
void UseBlockingWaits(uint32_t device_index);

// "NVIDIA H100 sm_90 driver 13.0": what the bits of a result depend on.
std::string DeviceFingerprint(uint32_t device_index);

// Memory on the device, or page-locked memory of the host that the device
// copies from and to by itself.
class Buffer {
 public:
  enum class Place { kDevice, kPinned };

  Buffer() = default;
  // At least 1 byte; contents are not defined.
  Buffer(Place place, size_t bytes, ErrorLog& errors);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void Free();

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Place place_ = Place::kDevice;
};

// Memory of somebody else's, page-locked as long as the object lives: the device
// copies from and to it by itself, like a pinned Buffer. For every device of the
// process.
class PageLock {
 public:
  // Not done, and no error, where the driver refuses; ask held().
  PageLock(void* memory, size_t bytes);
  // No copy may be in flight.
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

  bool held() const { return memory_ != nullptr; }

 private:
  void* memory_ = nullptr;
};

// Whether a device can copy from and to all of it by itself: pinned, or under a
// PageLock.
bool IsPageLocked(const void* memory, size_t bytes);

class Stream;

class Event {
 public:
  explicit Event(ErrorLog& errors);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) = delete;

  // Blocks until all before the last Stream::Record of it has run.
  void Synchronize();
  // The same for any thread, which needs no device; notes nothing. What went wrong, or
  // "". The event is not recorded meanwhile.
  std::string Await() const;

 private:
  friend class Stream;
  CUevent_st* handle_ = nullptr;
  ErrorLog* errors_;
};

// Work captured from a stream, to be launched as a whole any number of times.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

 private:
  friend class Stream;
  CUgraphExec_st* handle_ = nullptr;
};

// Held while a stream captures, and by calls that wait for a whole device: those
// may end the capture of another thread on it.
inline std::mutex& CaptureMutex() {
  static std::mutex mutex;
  return mutex;
}

class Stream {
 public:
  explicit Stream(ErrorLog& errors);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream_st* handle() const { return handle_; }
  ErrorLog& errors() const { return *errors_; }

  // Host memory must be page-locked and stay unchanged until the copy has run.
  void CopyToDevice(void* device, const void* host, size_t bytes);
  void CopyToHost(void* host, const void* device, size_t bytes);
  void Zero(void* device, size_t bytes);
  // From one place of the stream's device to another that does not overlap it.
  void CopyOnDevice(void* to, const void* from, size_t bytes);
  // From `from_device` to the stream's own, `to_device`: over NVLink or PCIe where they
  // reach each other, else by way of the host.
  void CopyFromPeer(void* to, uint32_t to_device, const void* from, uint32_t from_device,
                    size_t bytes);

  void Record(Event& event);
  // What is enqueued from here on runs after `event`'s last Record.
  void Wait(const Event& event);
  // Blocks until all that was enqueued has run.
  void Synchronize();
  // The same after an error as well, as far as the device still answers; notes none.
  void Drain();

  // Between them work is recorded, not run. No allocation may happen, and no
  // event of another stream may be waited for.
  void BeginCapture();
  Graph EndCapture();
  void Launch(const Graph& graph);

 private:
  CUstream_st* handle_ = nullptr;
  ErrorLog* errors_;
};

}  // namespace monsoon::cuda
