#include "tests/gpu/emulator/copies.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <string>

#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {
namespace {

constexpr int kFill = 0xFF;

// Host memory of a copy that has not run.
struct Pending {
  const uint8_t* begin;
  uint64_t bytes;
  // No other pending copy touches it, so that the host alone could change it.
  bool alone = true;
  uint64_t hash = 0;
};

std::list<std::shared_ptr<Pending>>& AllPending() {
  static auto* const pending = new std::list<std::shared_ptr<Pending>>;
  return *pending;
}

bool Overlap(const Pending& a, const Pending& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

std::shared_ptr<Pending> AddPending(const void* host, uint64_t bytes) {
  auto added = std::make_shared<Pending>();
  added->begin = static_cast<const uint8_t*>(host);
  added->bytes = bytes;
  for (const auto& other : AllPending()) {
    if (Overlap(*added, *other)) {
      added->alone = other->alone = false;
    }
  }
  AllPending().push_back(added);
  return added;
}

uint64_t Hash(const uint8_t* bytes, uint64_t count) {
  uint64_t hash = 14695981039346656037u;
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  for (; i < count; ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211u;
  }
  return hash;
}

bool IsFilled(const Pending& pending) {
  return std::all_of(pending.begin, pending.begin + pending.bytes,
                     [](uint8_t byte) { return byte == kFill; });
}

// The host memory of a copy whose turn has come; false where it is gone.
bool Take(const std::shared_ptr<Pending>& pending, uint32_t operation) {
  AllPending().remove(pending);
  if (!IsPinned(pending->begin, pending->bytes)) {
    Report("host memory", OperationName(operation) + " runs after its page lock was given up");
    return false;
  }
  return true;
}

Allocation* Allocated(uint64_t address, uint64_t bytes, uint32_t operation) {
  Allocation* const allocation = Find(address, bytes);
  if (allocation == nullptr) {
    Report("fault", OperationName(operation) +
                        Text(" touches %llu bytes of ", static_cast<unsigned long long>(bytes)) +
                        Describe(address));
    throw DeviceFault{700};
  }
  return allocation;
}

std::string Sized(const char* what, uint64_t bytes) {
  return Text("%s of %llu bytes", what, static_cast<unsigned long long>(bytes));
}

}  // namespace

void EnqueueToDevice(Stream& stream, uint64_t device, const void* host, uint64_t bytes) {
  Enqueue(stream, Sized("copy to the device", bytes), [=]() -> Run {
    const auto pending = AddPending(host, bytes);
    if (TheSettings().check) {
      pending->hash = Hash(pending->begin, bytes);
    }
    return [=](uint32_t operation) {
      if (!Take(pending, operation)) {
        return;
      }
      Allocation* const allocation = Allocated(device, bytes, operation);
      if (TheSettings().check && pending->alone && Hash(pending->begin, bytes) != pending->hash) {
        Report("host memory",
               OperationName(operation) + ": the host changed what it copies before it ran");
      }
      NoteWrite(*allocation, device, bytes, {operation, kManyThreads, "a copy to the device"},
                nullptr);
      std::memcpy(ToHost(device), host, bytes);
      TheStats().bytes_to_device += bytes;
      ++TheStats().copies;
    };
  });
}

void EnqueueToHost(Stream& stream, void* host, uint64_t device, uint64_t bytes) {
  Enqueue(stream, Sized("copy to the host", bytes), [=]() -> Run {
    const auto pending = AddPending(host, bytes);
    if (TheSettings().check && pending->alone) {
      std::memset(host, kFill, bytes);
    }
    return [=](uint32_t operation) {
      if (!Take(pending, operation)) {
        return;
      }
      Allocation* const allocation = Allocated(device, bytes, operation);
      if (TheSettings().check && pending->alone && !IsFilled(*pending)) {
        Report("host memory",
               OperationName(operation) + ": the host wrote to where it copies before it ran");
      }
      NoteRead(*allocation, device, bytes, {operation, kManyThreads, "a copy to the host"});
      std::memcpy(host, ToHost(device), bytes);
      TheStats().bytes_to_host += bytes;
      ++TheStats().copies;
    };
  });
}

void EnqueueOnDevice(Stream& stream, uint64_t to, uint64_t from, uint64_t bytes) {
  Enqueue(stream, Sized("copy on the device", bytes), [=]() -> Run {
    return [=](uint32_t operation) {
      Allocation* const source = Allocated(from, bytes, operation);
      Allocation* const target = Allocated(to, bytes, operation);
      NoteRead(*source, from, bytes, {operation, kManyThreads, "a copy on the device"});
      NoteWrite(*target, to, bytes, {operation, kManyThreads, "a copy on the device"}, nullptr);
      std::memmove(ToHost(to), ToHost(from), bytes);
      (source->device == target->device ? TheStats().bytes_on_device : TheStats().bytes_to_peer) +=
          bytes;
      ++TheStats().copies;
    };
  });
}

void EnqueueSet(Stream& stream, uint64_t device, int value, uint64_t bytes) {
  Enqueue(stream, Sized("memset", bytes), [=]() -> Run {
    return [=](uint32_t operation) {
      Allocation* const allocation = Allocated(device, bytes, operation);
      NoteWrite(*allocation, device, bytes, {operation, kManyThreads, "a memset"}, nullptr);
      std::memset(ToHost(device), value, bytes);
      ++TheStats().memsets;
    };
  });
}

bool HasPendingCopy(const void* host, uint64_t bytes) {
  Pending asked;
  asked.begin = static_cast<const uint8_t*>(host);
  asked.bytes = bytes;
  return std::ranges::any_of(AllPending(),
                             [&](const auto& pending) { return Overlap(asked, *pending); });
}

}  // namespace monsoon::emulator
