// The memory of the emulated devices, and what is known of each part of it: who wrote it
// last and who reads it. Also the host memory that devices may copy from and to.
//
// Device addresses cannot be read by the program (as on a real machine, it faults); the
// emulator goes to the same pages by another mapping (ToHost). Addresses are never used
// twice, so that what is freed stays known as such.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace monsoon::emulator {

// Guards all of the emulated machine.
std::recursive_mutex& TheMutex();

// What is known of two bytes of device memory. Operations are numbered by Operations in
// operations.h, 0 is none; threads are those of one launch.
struct Cell {
  uint32_t writer;
  uint32_t writing_thread;
  uint32_t reader;
  uint32_t reading_thread;  // kManyThreads: several
  uint32_t other_reader;    // another operation that is not ordered with `reader`
};

// Of copies, products and cells that several threads read.
inline constexpr uint32_t kManyThreads = ~uint32_t{0};

struct Allocation {
  uint64_t begin;
  uint64_t bytes;
  int device;
  uint32_t number;  // counted from 1, for reports
  Cell* cells;      // nullptr without checks
  bool Contains(uint64_t address, uint64_t count) const {
    return address >= begin && address + count <= begin + bytes;
  }
};

// Who touches memory.
struct Access {
  uint32_t operation;
  uint32_t thread;
  const char* what;
};

// 0 where there is no memory left. Contents are 0xFF, NaN in every format, up to a MiB.
uint64_t Allocate(uint64_t bytes, int device);
// False, and reported, for what is no allocation's begin.
bool Free(uint64_t address);
// The allocation with all of it, or nullptr.
Allocation* Find(uint64_t address, uint64_t bytes);
// What the address belongs to or lies near, for reports.
std::string Describe(uint64_t address);
uint64_t BytesInUse(int device);
uint64_t AllocationCount();

// Where the emulator finds a device address.
extern uint64_t to_host_offset;
inline void* ToHost(uint64_t address) { return reinterpret_cast<void*>(address + to_host_offset); }

// Note an access and report what is not ordered or never written. No checks: nothing.
void NoteRead(Allocation& allocation, uint64_t address, uint64_t bytes, const Access& access);
// `value`: what is written, where two threads may write the same; else nullptr.
void NoteWrite(Allocation& allocation, uint64_t address, uint64_t bytes, const Access& access,
               const void* value);

// Host memory under a page lock, or allocated pinned.
void AddPinned(const void* memory, uint64_t bytes, bool allocated);
// False where none begins there.
bool RemovePinned(const void* memory, bool allocated);
// All of it in one piece.
bool IsPinned(const void* memory, uint64_t bytes);
bool OverlapsPinned(const void* memory, uint64_t bytes);
uint64_t PinnedCount();

}  // namespace monsoon::emulator
