// Streams, events, captures and devices of the emulated machine, and when the work of
// streams runs (MONSOON_EMULATOR_SCHEDULE). Work runs in the thread whose call makes it
// run, one operation at a time.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/emulator/operations.h"

namespace monsoon::emulator {

// Thrown by an operation that no device survives.
struct DeviceFault {
  int error;  // a cudaError_t
};

// What an operation does once its turn comes; takes its number.
using Run = std::function<void(uint32_t operation)>;
// Called when the operation is enqueued; those of a graph, at each launch.
using Enqueued = std::function<Run()>;

struct Recorded {
  std::string name;
  Enqueued enqueued;
};

struct Stream {
  uint32_t id;
  int device;
  Clock clock;
  uint32_t operations = 0;  // enqueued ones, that is, without waits
  std::deque<std::function<void()>> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  bool capturing = false;
  bool capture_broken = false;
  std::vector<Recorded> captured;
};

struct Event {
  int device;
  Stream* stream = nullptr;  // of the last record; nullptr: none, or in a capture
  uint64_t position = 0;
  Clock clock;
  Stream* captured_in = nullptr;
};

struct Graph {
  std::vector<Recorded> operations;
};

Stream* NewStream(int device);
// Runs what it still has.
void DestroyStream(Stream* stream);
bool IsStream(const Stream* stream);
uint64_t StreamCount();
const std::vector<Stream*>& Streams();

Event* NewEvent(int device);
void DestroyEvent(Event* event);
bool IsEvent(const Event* event);
uint64_t EventCount();

// Into the capture of a capturing stream, else to be run.
void Enqueue(Stream& stream, const std::string& name, Enqueued enqueued);
void LaunchGraph(Stream& stream, const Graph& graph);
void RecordEvent(Stream& stream, Event& event);
void WaitForEvent(Stream& stream, const Event& event);

// The host waits.
void Synchronize(Stream& stream);
void Synchronize(const Event& event);
// Does a little, so that who polls comes to an end; whether all is done.
bool Poll(Stream& stream, uint64_t position);
// All streams of a device, without the host's knowing of it.
void RunAll(int device);

// cudaSuccess, or what the device fails with from now on.
int DeviceError(int device);

// For the schedules of seeds.
std::mt19937& Random();

}  // namespace monsoon::emulator
