#include "tests/gpu/emulator/streams.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {
namespace {

struct State {
  std::vector<Stream*> streams;
  std::set<const Event*> events;
  uint32_t next_stream = 1;
  std::map<int, int> device_errors;
  uint64_t operations_run = 0;
  std::mt19937 random{TheSettings().seed};
};

State& The() {
  static State* const state = new State;
  return *state;
}

void RunOperation(int device, const Run& run, uint32_t operation) {
  State& state = The();
  int& error = state.device_errors[device];
  const uint64_t lose_after = TheSettings().lose_device_after;
  if (error == 0 && ++state.operations_run == lose_after) {
    error = TheSettings().lose_device_error;
  }
  if (error != 0) {
    return;
  }
  try {
    run(operation);
  } catch (const DeviceFault& fault) {
    error = fault.error;
  }
}

void RunUntil(Stream& stream, uint64_t position) {
  while (stream.done < position && !stream.queue.empty()) {
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;
    work();
  }
}

// After each call that enqueues.
void Advance() {
  State& state = The();
  switch (TheSettings().schedule) {
    case Schedule::kLate:
      return;
    case Schedule::kEager:
      for (Stream* stream : state.streams) {
        RunUntil(*stream, stream->enqueued);
      }
      return;
    case Schedule::kSeeded:
      for (uint32_t left = state.random() % 4; left > 0; --left) {
        Stream& stream = *state.streams[state.random() % state.streams.size()];
        RunUntil(stream, stream.done + 1);
      }
      return;
  }
}

void Push(Stream& stream, const Recorded& recorded) {
  stream.clock.Join(HostClock());
  stream.clock.Set(stream.id, ++stream.operations);
  const uint32_t operation =
      NewOperation(recorded.name, stream.id, stream.operations, stream.clock);
  stream.queue.push_back([device = stream.device, run = recorded.enqueued(), operation] {
    RunOperation(device, run, operation);
  });
  ++stream.enqueued;
}

}  // namespace

Stream* NewStream(int device) {
  State& state = The();
  auto* stream = new Stream{state.next_stream++, device, {}, 0, {}, 0, 0, false, false, {}};
  state.streams.push_back(stream);
  return stream;
}

void DestroyStream(Stream* stream) {
  RunUntil(*stream, stream->enqueued);
  Retire(stream->id);
  std::erase(The().streams, stream);
  delete stream;
}

bool IsStream(const Stream* stream) { return std::ranges::count(The().streams, stream) > 0; }

uint64_t StreamCount() { return The().streams.size(); }

const std::vector<Stream*>& Streams() { return The().streams; }

Event* NewEvent(int device) {
  auto* event = new Event{device, nullptr, 0, {}, nullptr};
  The().events.insert(event);
  return event;
}

void DestroyEvent(Event* event) {
  The().events.erase(event);
  delete event;
}

bool IsEvent(const Event* event) { return The().events.contains(event); }

uint64_t EventCount() { return The().events.size(); }

void Enqueue(Stream& stream, const std::string& name, Enqueued enqueued) {
  if (stream.capturing) {
    stream.captured.push_back({name, std::move(enqueued)});
    return;
  }
  ++TheStats().host_calls;
  Push(stream, {name, std::move(enqueued)});
  Advance();
}

void LaunchGraph(Stream& stream, const Graph& graph) {
  for (const Recorded& recorded : graph.operations) {
    Push(stream, recorded);
  }
  Advance();
}

void RecordEvent(Stream& stream, Event& event) {
  if (stream.capturing) {
    event.captured_in = &stream;
    return;
  }
  stream.clock.Join(HostClock());
  event.captured_in = nullptr;
  event.stream = &stream;
  event.position = stream.enqueued;
  event.clock = stream.clock;
}

void WaitForEvent(Stream& stream, const Event& event) {
  if (event.stream == nullptr || !IsStream(event.stream)) {
    return;  // never recorded, or its stream is gone and so done
  }
  stream.clock.Join(event.clock);
  stream.queue.push_back([from = event.stream, position = event.position] {
    if (IsStream(from)) {
      RunUntil(*from, position);
    }
  });
  ++stream.enqueued;
  Advance();
}

void Synchronize(Stream& stream) {
  RunUntil(stream, stream.enqueued);
  HostClock().Join(stream.clock);
}

void Synchronize(const Event& event) {
  if (event.stream == nullptr) {
    return;
  }
  if (IsStream(event.stream)) {
    RunUntil(*event.stream, event.position);
  }
  HostClock().Join(event.clock);
}

bool Poll(Stream& stream, uint64_t position) {
  if (stream.done < position) {
    RunUntil(stream, stream.done + 1);
    return false;
  }
  return true;
}

void RunAll(int device) {
  for (Stream* stream : The().streams) {
    if (stream->device == device) {
      RunUntil(*stream, stream->enqueued);
    }
  }
}

int DeviceError(int device) {
  const auto found = The().device_errors.find(device);
  return found == The().device_errors.end() ? 0 : found->second;
}

std::mt19937& Random() { return The().random; }

}  // namespace monsoon::emulator
