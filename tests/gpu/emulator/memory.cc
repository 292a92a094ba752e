#include "tests/gpu/emulator/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/gpu/emulator/operations.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {

uint64_t to_host_offset = 0;

namespace {

constexpr uint64_t kArenaBytes = uint64_t{64} << 30;
constexpr uint64_t kAlignment = 256;  // cudaMalloc's
constexpr uint64_t kGuardBytes = 4096;
constexpr uint64_t kFilledBytes = 1 << 20;
constexpr uint64_t kPage = 4096;

uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

struct Freed {
  uint64_t bytes;
  uint32_t number;
};

struct Pinned {
  uint64_t bytes;
  bool allocated;
};

struct Memory {
  uint64_t begin = 0;
  uint64_t next = 0;
  uint32_t count = 0;
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations;
  std::map<uint64_t, Freed> freed;
  std::map<const char*, Pinned> pinned;

  Memory() {
    const int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kArenaBytes) != 0) {
      std::perror("CUDA emulator: memfd");
      std::_Exit(2);
    }
    void* device = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void* host =
        mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (device == MAP_FAILED || host == MAP_FAILED) {
      std::perror("CUDA emulator: mmap");
      std::_Exit(2);
    }
    begin = next = reinterpret_cast<uint64_t>(device);
    to_host_offset = reinterpret_cast<uint64_t>(host) - begin;
  }
};

Memory& TheMemory() {
  static Memory* const memory = new Memory;  // used to the very end
  return *memory;
}

uint64_t CellBytes(uint64_t bytes) { return RoundUp((bytes / 2 + 1) * sizeof(Cell), kPage); }

template <typename Map, typename Key>
auto AtOrBefore(Map& map, Key key) {
  auto found = map.upper_bound(key);
  return found == map.begin() ? map.end() : std::prev(found);
}

void Race(const char* kind, const Allocation& allocation, uint64_t cell, const Access& access,
          const char* what, uint32_t other) {
  Report(kind, Text("%s %s what %s touched; byte %llu of %s",
                    OperationName(access.operation).c_str(), what, OperationName(other).c_str(),
                    static_cast<unsigned long long>(2 * cell), Describe(allocation.begin).c_str()));
}

void ThreadRace(const Allocation& allocation, uint64_t cell, const Access& access, const char* what,
                uint32_t other) {
  Report("kernel race",
         Text("%s: thread %u of the launch %s thread %d; byte %llu of %s", access.what,
              access.thread, what, static_cast<int>(other),
              static_cast<unsigned long long>(2 * cell), Describe(allocation.begin).c_str()));
}

}  // namespace

std::recursive_mutex& TheMutex() {
  static std::recursive_mutex* const mutex = new std::recursive_mutex;
  return *mutex;
}

uint64_t Allocate(uint64_t bytes, int device) {
  Memory& memory = TheMemory();
  const uint64_t address = memory.next;
  const uint64_t end = address + RoundUp(bytes, kAlignment) + kGuardBytes;
  if (bytes > kArenaBytes || end > memory.begin + kArenaBytes ||
      BytesInUse(device) + bytes > TheSettings().device_memory) {
    return 0;
  }
  memory.next = end;
  auto allocation = std::make_unique<Allocation>();
  *allocation = {address, bytes, device, ++memory.count, nullptr};
  if (TheSettings().check) {
    void* cells = mmap(nullptr, CellBytes(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) {
      return 0;
    }
    allocation->cells = static_cast<Cell*>(cells);
  }
  std::memset(ToHost(address), 0xFF, std::min(bytes, kFilledBytes));
  memory.allocations[address] = std::move(allocation);
  return address;
}

bool Free(uint64_t address) {
  Memory& memory = TheMemory();
  const auto found = memory.allocations.find(address);
  if (found == memory.allocations.end()) {
    Report("misuse", "cudaFree of what is not allocated: " + Describe(address));
    return false;
  }
  const Allocation& allocation = *found->second;
  if (allocation.cells != nullptr) {
    munmap(allocation.cells, CellBytes(allocation.bytes));
  }
  const uint64_t first = RoundUp(address, kPage);
  const uint64_t last = (address + allocation.bytes) / kPage * kPage;
  if (last > first) {
    madvise(ToHost(first), last - first, MADV_REMOVE);
  }
  memory.freed[address] = {allocation.bytes, allocation.number};
  memory.allocations.erase(found);
  return true;
}

Allocation* Find(uint64_t address, uint64_t bytes) {
  Memory& memory = TheMemory();
  const auto found = AtOrBefore(memory.allocations, address);
  return found != memory.allocations.end() && found->second->Contains(address, bytes)
             ? found->second.get()
             : nullptr;
}

std::string Describe(uint64_t address) {
  Memory& memory = TheMemory();
  const auto freed = AtOrBefore(memory.freed, address);
  if (freed != memory.freed.end() && address < freed->first + freed->second.bytes) {
    return Text("allocation %u of %llu bytes, freed before, at byte %llu", freed->second.number,
                static_cast<unsigned long long>(freed->second.bytes),
                static_cast<unsigned long long>(address - freed->first));
  }
  const auto found = AtOrBefore(memory.allocations, address);
  if (found == memory.allocations.end() || address >= memory.begin + kArenaBytes) {
    return Text("0x%llx, no device memory", static_cast<unsigned long long>(address));
  }
  const Allocation& allocation = *found->second;
  return Text("allocation %u of %llu bytes on device %d, at byte %llu", allocation.number,
              static_cast<unsigned long long>(allocation.bytes), allocation.device,
              static_cast<unsigned long long>(address - allocation.begin));
}

uint64_t BytesInUse(int device) {
  uint64_t bytes = 0;
  for (const auto& [address, allocation] : TheMemory().allocations) {
    bytes += allocation->device == device ? allocation->bytes : 0;
  }
  return bytes;
}

uint64_t AllocationCount() { return TheMemory().allocations.size(); }

void NoteRead(Allocation& allocation, uint64_t address, uint64_t bytes, const Access& access) {
  if (allocation.cells == nullptr) {
    return;
  }
  const uint64_t offset = address - allocation.begin;
  for (uint64_t i = offset / 2; i < (offset + bytes + 1) / 2; ++i) {
    Cell& cell = allocation.cells[i];
    if (cell.writer == access.operation) {
      if (cell.writing_thread != access.thread && cell.writing_thread != kManyThreads &&
          access.thread != kManyThreads) {
        ThreadRace(allocation, i, access, "reads what is written by", cell.writing_thread);
      }
    } else if (cell.writer == 0) {
      Report("uninitialised",
             Text("%s reads what nobody wrote; byte %llu of %s", access.what,
                  static_cast<unsigned long long>(2 * i), Describe(allocation.begin).c_str()));
    } else if (!HappensBefore(cell.writer, access.operation)) {
      Race("stream race", allocation, i, access, "reads, not ordered behind it,", cell.writer);
    }
    if (cell.reader == access.operation) {
      cell.reading_thread = cell.reading_thread == access.thread ? access.thread : kManyThreads;
    } else {
      if (cell.reader != 0 && cell.reader != cell.writer &&
          !HappensBefore(cell.reader, access.operation)) {
        cell.other_reader = cell.reader;
      }
      cell.reader = access.operation;
      cell.reading_thread = access.thread;
    }
  }
}

void NoteWrite(Allocation& allocation, uint64_t address, uint64_t bytes, const Access& access,
               const void* value) {
  if (allocation.cells == nullptr) {
    return;
  }
  const uint64_t offset = address - allocation.begin;
  for (uint64_t i = offset / 2; i < (offset + bytes + 1) / 2; ++i) {
    Cell& cell = allocation.cells[i];
    if (access.thread != kManyThreads) {
      if (cell.writer == access.operation && cell.writing_thread != access.thread &&
          (value == nullptr || std::memcmp(value, ToHost(address), bytes) != 0)) {
        ThreadRace(allocation, i, access, "writes another value than", cell.writing_thread);
      }
      if (cell.reader == access.operation && cell.reading_thread != access.thread) {
        ThreadRace(allocation, i, access, "writes what is read by", cell.reading_thread);
      }
    }
    for (const uint32_t other : {cell.writer, cell.reader, cell.other_reader}) {
      if (other != 0 && other != access.operation && !HappensBefore(other, access.operation)) {
        Race("stream race", allocation, i, access, "overwrites, not ordered behind it,", other);
      }
    }
    cell.writer = access.operation;
    cell.writing_thread = access.thread;
  }
}

void AddPinned(const void* memory, uint64_t bytes, bool allocated) {
  TheMemory().pinned[static_cast<const char*>(memory)] = {bytes, allocated};
}

bool RemovePinned(const void* memory, bool allocated) {
  auto& pinned = TheMemory().pinned;
  const auto found = pinned.find(static_cast<const char*>(memory));
  if (found == pinned.end() || found->second.allocated != allocated) {
    return false;
  }
  pinned.erase(found);
  return true;
}

bool IsPinned(const void* memory, uint64_t bytes) {
  auto& pinned = TheMemory().pinned;
  const char* const begin = static_cast<const char*>(memory);
  const auto found = AtOrBefore(pinned, begin);
  return found != pinned.end() && begin + bytes <= found->first + found->second.bytes;
}

bool OverlapsPinned(const void* memory, uint64_t bytes) {
  auto& pinned = TheMemory().pinned;
  const char* const begin = static_cast<const char*>(memory);
  const auto last = AtOrBefore(pinned, begin + bytes - 1);
  return last != pinned.end() && last->first + last->second.bytes > begin;
}

uint64_t PinnedCount() { return TheMemory().pinned.size(); }

}  // namespace monsoon::emulator
