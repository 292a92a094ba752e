#include "worker/backend/cuda/host/host_runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "worker/backend/cuda/runtime/error_log.h"

namespace monsoon::cuda {
namespace {

using Work = std::function<void()>;

struct HostStream {
  std::deque<Work> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  bool capturing = false;
  std::vector<Work> captured;
};

struct HostEvent {
  HostStream* stream = nullptr;
  uint64_t position = 0;
};

struct HostGraph {
  std::vector<Work> work;
};

HostStream* Of(CUstream_st* handle) { return reinterpret_cast<HostStream*>(handle); }
HostEvent* Of(CUevent_st* handle) { return reinterpret_cast<HostEvent*>(handle); }
HostGraph* Of(CUgraphExec_st* handle) { return reinterpret_cast<HostGraph*>(handle); }

int fail_after = 0;
bool fail_capture = false;

// What a device may copy from and to: begin and end. Guarded, since locks of
// different networks come and go in different threads.
std::mutex page_locked_mutex;
std::map<const char*, const char*> page_locked;

void AddPageLocked(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> lock(page_locked_mutex);
  page_locked[static_cast<const char*>(memory)] = static_cast<const char*>(memory) + bytes;
}

void RemovePageLocked(const void* memory) {
  const std::lock_guard<std::mutex> lock(page_locked_mutex);
  page_locked.erase(static_cast<const char*>(memory));
}

void RunUntil(HostStream* stream, uint64_t position) {
  while (stream->done < position) {
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    ++stream->done;
    work();
  }
}

// True once, when the planted error is due.
bool Fails() { return fail_after > 0 && --fail_after == 0; }

}  // namespace

void FailOnHostAfter(int calls) { fail_after = calls; }

void FailNextCaptureOnHost() { fail_capture = true; }

void EnqueueOnHost(Stream& stream, std::function<void()> work) {
  if (!stream.errors().ok()) {
    return;
  }
  HostStream* host = Of(stream.handle());
  if (host->capturing) {
    host->captured.push_back(std::move(work));
    return;
  }
  host->queue.push_back([errors = &stream.errors(), work = std::move(work)] {
    if (errors->kind() == ErrorLog::Kind::kDevice) {
      return;  // a device that is lost runs nothing
    }
    if (Fails()) {
      errors->Add(ErrorLog::Kind::kDevice, "a kernel", "error 700: illegal memory access");
    } else {
      work();
    }
  });
  ++host->enqueued;
}

bool SelectDevice(uint32_t device_index, ErrorLog& errors) {
  if (device_index != 0) {
    errors.Add(ErrorLog::Kind::kNotAvailable, "cudaSetDevice", "no such device");
  }
  return errors.ok();
}

void ReachPeer(uint32_t /*device_index*/, uint32_t /*peer*/) {}

void UseBlockingWaits(uint32_t /*device_index*/) {}

std::string DeviceFingerprint(uint32_t /*device_index*/) { return "host stand-in"; }

Buffer::Buffer(Place place, size_t bytes, ErrorLog& errors) : place_(place) {
  if (errors.ok()) {
    bytes_ = bytes == 0 ? 1 : bytes;
    data_ = std::malloc(bytes_);
    std::memset(data_, 0xFF, bytes_);  // NaN in every float format.
    if (place == Place::kPinned) {
      AddPageLocked(data_, bytes_);
    }
  }
}

void Buffer::Free() {
  if (data_ != nullptr && place_ == Place::kPinned) {
    RemovePageLocked(data_);
  }
  std::free(std::exchange(data_, nullptr));
  bytes_ = 0;
}

Buffer::~Buffer() { Free(); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      place_(other.place_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
  return *this;
}

PageLock::PageLock(void* memory, size_t bytes) : memory_(memory) { AddPageLocked(memory, bytes); }

PageLock::~PageLock() { RemovePageLocked(memory_); }

bool IsPageLocked(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> lock(page_locked_mutex);
  const char* const begin = static_cast<const char*>(memory);
  const auto after = page_locked.upper_bound(begin);
  return after != page_locked.begin() && begin + bytes <= std::prev(after)->second;
}

Event::Event(ErrorLog& errors)
    : handle_(reinterpret_cast<CUevent_st*>(new HostEvent)), errors_(&errors) {}

Event::~Event() { delete Of(handle_); }

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), errors_(other.errors_) {}

void Event::Synchronize() {
  if (errors_->ok() && Of(handle_)->stream != nullptr) {
    RunUntil(Of(handle_)->stream, Of(handle_)->position);
  }
}

std::string Event::Await() const {
  const HostEvent& at = *Of(handle_);
  if (at.stream != nullptr) {
    RunUntil(at.stream, at.position);
  }
  return errors_->ok() ? "" : errors_->message();
}

Graph::~Graph() { delete Of(handle_); }

Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::Stream(ErrorLog& errors)
    : handle_(reinterpret_cast<CUstream_st*>(new HostStream)), errors_(&errors) {}

Stream::~Stream() {
  if (errors_->ok()) {
    RunUntil(Of(handle_), Of(handle_)->enqueued);
  }
  delete Of(handle_);
}

// The device would wait for a copy from memory that is not page-locked, or read it
// too late.
void Stream::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0 && errors_->ok() && !IsPageLocked(host, bytes)) {
    errors_->Add(ErrorLog::Kind::kDevice, "copy to the device", "from memory that may be paged");
  }
  EnqueueOnHost(*this, [=] { std::memcpy(device, host, bytes); });
}

void Stream::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes > 0 && errors_->ok() && !IsPageLocked(host, bytes)) {
    errors_->Add(ErrorLog::Kind::kDevice, "copy to the host", "to memory that may be paged");
  }
  EnqueueOnHost(*this, [=] { std::memcpy(host, device, bytes); });
}

void Stream::Zero(void* device, size_t bytes) {
  EnqueueOnHost(*this, [=] { std::memset(device, 0, bytes); });
}

void Stream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  EnqueueOnHost(*this, [=] { std::memcpy(to, from, bytes); });
}

void Stream::CopyFromPeer(void* to, uint32_t /*to_device*/, const void* from,
                          uint32_t /*from_device*/, size_t bytes) {
  CopyOnDevice(to, from, bytes);
}

void Stream::Record(Event& event) {
  *Of(event.handle_) = HostEvent{Of(handle_), Of(handle_)->enqueued};
}

void Stream::Wait(const Event& event) {
  const HostEvent at = *Of(event.handle_);
  if (at.stream != nullptr) {
    EnqueueOnHost(*this, [at] { RunUntil(at.stream, at.position); });
  }
}

void Stream::Synchronize() {
  if (errors_->ok()) {
    RunUntil(Of(handle_), Of(handle_)->enqueued);
  }
}

void Stream::Drain() { RunUntil(Of(handle_), Of(handle_)->enqueued); }

void Stream::BeginCapture() {
  Of(handle_)->capturing = true;
  Of(handle_)->captured.clear();
}

Graph Stream::EndCapture() {
  Of(handle_)->capturing = false;
  Graph graph;
  if (std::exchange(fail_capture, false)) {
    errors_->Add(ErrorLog::Kind::kDevice, "end of graph capture", "error 901: invalidated");
    return graph;
  }
  graph.handle_ =
      reinterpret_cast<CUgraphExec_st*>(new HostGraph{std::exchange(Of(handle_)->captured, {})});
  return graph;
}

void Stream::Launch(const Graph& graph) {
  for (const Work& work : Of(graph.handle_)->work) {
    EnqueueOnHost(*this, work);
  }
}

}  // namespace monsoon::cuda
