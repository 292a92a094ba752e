// What translated kernels (tests/gpu/emulator/translate) are made of: threads with their
// memory, each access checked for bounds, alignment, initialisation and races.
//
// Thread safety: a kernel runs in one host thread, which holds TheMutex().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/arithmetic.h"
#include "tests/gpu/emulator/memory.h"

namespace monsoon::emulator {

// What a thread that returned waits for.
enum class Wait : uint8_t { kNothing, kBarrier, kWarp, kEnd };

// One launch of a kernel.
struct Launch {
  const char* kernel;
  uint32_t operation;
  int device;
  uint32_t block_size[3];
  uint32_t grid_size[3];
  // What its threads accessed last, so that most accesses need no search.
  mutable std::array<Allocation*, 8> recent = {};
  mutable uint32_t next_recent = 0;
};

// What is known of four bytes of shared memory. Phases count barriers: accesses in one
// phase are not ordered, but for those of one warp on both sides of a bar.warp.sync.
struct SharedCell {
  uint32_t writer;  // thread of the block; kManyThreads: nobody
  uint32_t write_phase;
  uint32_t write_warp_phase;
  uint32_t reader;        // kManyThreads: several
  uint32_t reading_warp;  // kManyThreads: several
  uint32_t read_phase;
  uint32_t read_warp_phase;
};

struct Block {
  std::vector<uint8_t> shared;
  std::vector<SharedCell> cells;
  uint32_t phase;
};

// What the threads of a warp do together.
struct Exchange {
  enum Kind : uint8_t {
    kSync,
    kShuffleUp,
    kShuffleDown,
    kShuffleButterfly,
    kShuffleIndex,
    kVoteAll,
    kVoteAny,
    kVoteUniform,
    kBallot,
    kAdd,
    kMin,
    kMax,
    kAnd,
    kOr,
    kXor,
  };
  Kind kind;
  uint32_t value;
  uint32_t mask;
  uint32_t first;   // of a shuffle: b; of a reduction: whether it is signed
  uint32_t second;  // of a shuffle: c
  uint32_t result = 0;
  bool valid = false;  // the predicate of a shuffle
};

struct Thread {
  uint32_t thread_in_block[3];
  uint32_t block_in_grid[3];
  uint32_t index;   // in the block
  uint32_t number;  // in the launch
  const Launch* launch;
  Block* block;
  std::vector<uint8_t>* local;
  uint32_t warp_phase = 0;
  int resume = 0;
  Wait wait = Wait::kNothing;
  Exchange exchange;
  uint64_t instructions = 0;
};

struct KernelParameter {
  uint32_t offset;
  uint32_t bytes;
};

struct Kernel {
  const char* name;
  // Runs one thread to its end or to what it waits for. `saved`: its registers, zero at
  // first, where it may wait.
  Wait (*run)(const uint8_t* params, Thread& thread, void* saved);
  size_t saved_bytes;
  bool waits;
  uint32_t shared_bytes;
  uint32_t local_bytes;
  uint32_t max_threads;  // per block; 0: not bounded by the kernel
  uint32_t parameter_bytes;
  std::vector<KernelParameter> parameters;
};

struct KernelRegistration {
  explicit KernelRegistration(std::vector<Kernel> kernels);
};

// nullptr where there is none of this (mangled) name.
const Kernel* FindKernel(const std::string& name);

// Generic addresses of shared and local memory.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{1} << 57;

// Reports what the thread did and ends the launch.
[[noreturn]] void Fault(const Thread& thread, const std::string& what);
[[noreturn]] void MemoryFault(const Thread& thread, const char* what, uint64_t address,
                              uint64_t bytes);
// The allocation with all of the bytes, which the launch's device may access.
Allocation* FindForThread(const Thread& thread, uint64_t address, uint64_t bytes);
void NoteSharedRead(Thread& thread, uint64_t address, uint64_t bytes);
void NoteSharedWrite(Thread& thread, uint64_t address, uint64_t bytes);

template <typename T>
T Parameter(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// By an address that was computed from a parameter's; `bytes`: of all parameters.
template <typename T>
T ParameterAt(const Thread& thread, const uint8_t* params, uint64_t bytes, uint64_t at) {
  if (at > bytes || bytes - at < sizeof(T)) {
    Fault(thread, "reads beyond its parameters");
  }
  return Parameter<T>(params + at);
}

inline Allocation& CheckGlobal(Thread& thread, uint64_t address, uint64_t bytes) {
  if (address % bytes != 0) {
    MemoryFault(thread, "a misaligned access,", address, bytes);
  }
  for (Allocation* allocation : thread.launch->recent) {
    if (allocation != nullptr && allocation->Contains(address, bytes)) {
      return *allocation;
    }
  }
  Allocation* const found = FindForThread(thread, address, bytes);
  thread.launch->recent[thread.launch->next_recent++ % 8] = found;
  return *found;
}

// A byte's neighbour in its cell may be another thread's.
template <typename T>
uint32_t NotedThread(const Thread& thread) {
  return sizeof(T) == 1 ? kManyThreads : thread.number;
}

template <typename T, size_t n>
std::array<T, n> LoadGlobal(Thread& thread, uint64_t address) {
  Allocation& allocation = CheckGlobal(thread, address, sizeof(T) * n);
  NoteRead(allocation, address, sizeof(T) * n,
           {thread.launch->operation, NotedThread<T>(thread), thread.launch->kernel});
  std::array<T, n> values;
  std::memcpy(values.data(), ToHost(address), sizeof values);
  return values;
}

template <typename T, size_t n>
void StoreGlobal(Thread& thread, uint64_t address, const std::array<T, n>& values) {
  Allocation& allocation = CheckGlobal(thread, address, sizeof(T) * n);
  NoteWrite(allocation, address, sizeof(T) * n,
            {thread.launch->operation, NotedThread<T>(thread), thread.launch->kernel},
            values.data());
  std::memcpy(ToHost(address), values.data(), sizeof values);
}

inline void CheckWindow(Thread& thread, const std::vector<uint8_t>& memory, const char* what,
                        uint64_t address, uint64_t bytes) {
  if (address + bytes > memory.size() || address % bytes != 0) {
    MemoryFault(thread, what, address, bytes);
  }
}

template <typename T, size_t n>
std::array<T, n> LoadShared(Thread& thread, uint64_t address) {
  CheckWindow(thread, thread.block->shared, "shared memory, out of bounds or misaligned,", address,
              sizeof(T) * n);
  NoteSharedRead(thread, address, sizeof(T) * n);
  std::array<T, n> values;
  std::memcpy(values.data(), thread.block->shared.data() + address, sizeof values);
  return values;
}

template <typename T, size_t n>
void StoreShared(Thread& thread, uint64_t address, const std::array<T, n>& values) {
  CheckWindow(thread, thread.block->shared, "shared memory, out of bounds or misaligned,", address,
              sizeof(T) * n);
  NoteSharedWrite(thread, address, sizeof(T) * n);
  std::memcpy(thread.block->shared.data() + address, values.data(), sizeof values);
}

template <typename T, size_t n>
std::array<T, n> LoadLocal(Thread& thread, uint64_t address) {
  CheckWindow(thread, *thread.local, "local memory, out of bounds or misaligned,", address,
              sizeof(T) * n);
  std::array<T, n> values;
  std::memcpy(values.data(), thread.local->data() + address, sizeof values);
  return values;
}

template <typename T, size_t n>
void StoreLocal(Thread& thread, uint64_t address, const std::array<T, n>& values) {
  CheckWindow(thread, *thread.local, "local memory, out of bounds or misaligned,", address,
              sizeof(T) * n);
  std::memcpy(thread.local->data() + address, values.data(), sizeof values);
}

template <typename T, size_t n>
std::array<T, n> LoadGeneric(Thread& thread, uint64_t address) {
  return address >= kLocalWindow    ? LoadLocal<T, n>(thread, address - kLocalWindow)
         : address >= kSharedWindow ? LoadShared<T, n>(thread, address - kSharedWindow)
                                    : LoadGlobal<T, n>(thread, address);
}

template <typename T, size_t n>
void StoreGeneric(Thread& thread, uint64_t address, const std::array<T, n>& values) {
  if (address >= kLocalWindow) {
    StoreLocal<T, n>(thread, address - kLocalWindow, values);
  } else if (address >= kSharedWindow) {
    StoreShared<T, n>(thread, address - kSharedWindow, values);
  } else {
    StoreGlobal<T, n>(thread, address, values);
  }
}

// Of integers. By 0 a GPU's result is not defined.
template <typename T>
T Divide(const Thread& thread, T a, T b) {
  if (b == 0) {
    Fault(thread, "division by 0");
  }
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? static_cast<T>(T{0} - a)
                                                        : static_cast<T>(a / b);
}

template <typename T>
T Remainder(const Thread& thread, T a, T b) {
  if (b == 0) {
    Fault(thread, "remainder of division by 0");
  }
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? T{0} : static_cast<T>(a % b);
}

}  // namespace monsoon::emulator
