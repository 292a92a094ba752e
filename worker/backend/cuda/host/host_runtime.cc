#include "worker/backend/cuda/host/host_runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
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

std::string DeviceFingerprint(uint32_t /*device_index*/) { return "host stand-in"; }

Buffer::Buffer(Place place, size_t bytes, ErrorLog& errors) : place_(place) {
  if (errors.ok()) {
    bytes_ = bytes == 0 ? 1 : bytes;
    data_ = std::malloc(bytes_);
    std::memset(data_, 0xFF, bytes_);  // NaN in every float format.
  }
}

void Buffer::Free() {
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

void Stream::CopyToDevice(void* device, const void* pinned, size_t bytes) {
  EnqueueOnHost(*this, [=] { std::memcpy(device, pinned, bytes); });
}

void Stream::CopyToHost(void* pinned, const void* device, size_t bytes) {
  EnqueueOnHost(*this, [=] { std::memcpy(pinned, device, bytes); });
}

void Stream::Zero(void* device, size_t bytes) {
  EnqueueOnHost(*this, [=] { std::memset(device, 0, bytes); });
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

void Stream::BeginCapture() {
  Of(handle_)->capturing = true;
  Of(handle_)->captured.clear();
}

Graph Stream::EndCapture() {
  Of(handle_)->capturing = false;
  Graph graph;
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
