#include "tests/gpu/emulator/launch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"
#include "tests/gpu/emulator/streams.h"
#include "tests/gpu/emulator/warp.h"

namespace monsoon::emulator {
namespace {

constexpr int kIllegalAddress = 700;
constexpr int kMisalignedAddress = 716;
constexpr int kLaunchFailure = 719;
constexpr uint32_t kWarpSize = 32;
constexpr uint32_t kMaxThreadsPerBlock = 1024;
constexpr uint32_t kMaxSharedBytes = 48 << 10;

std::map<std::string, Kernel>& Kernels() {
  static auto* const kernels = new std::map<std::string, Kernel>;
  return *kernels;
}

std::set<std::pair<int, int>>& Peers() {
  static auto* const peers = new std::set<std::pair<int, int>>;
  return *peers;
}

std::string Where(const Thread& thread) {
  return Text("%s, block (%u, %u, %u) thread (%u, %u, %u)", thread.launch->kernel,
              thread.block_in_grid[0], thread.block_in_grid[1], thread.block_in_grid[2],
              thread.thread_in_block[0], thread.thread_in_block[1], thread.thread_in_block[2]);
}

void SharedRace(const Thread& thread, const char* what, uint64_t address, uint32_t other) {
  Report("shared race",
         Text("%s %s by thread %d since the last barrier; byte %llu of shared memory",
              Where(thread).c_str(), what, static_cast<int>(other),
              static_cast<unsigned long long>(address)));
}

// Whether what `other` did in a phase is not ordered before what `thread` does now.
bool Races(const Thread& thread, uint32_t other, uint32_t other_warp, uint32_t phase,
           uint32_t warp_phase) {
  return phase == thread.block->phase && other != thread.index &&
         !(other_warp == thread.index / kWarpSize && warp_phase < thread.warp_phase);
}

// Runs the threads of one block after the other.
class BlockRun {
 public:
  BlockRun(const Kernel& kernel, const LaunchConfiguration& configuration, const Launch& launch,
           const std::vector<uint8_t>& parameters)
      : kernel_(kernel), launch_(launch), parameters_(parameters) {
    const auto& size = configuration.block;
    threads_.resize(size_t{size[0]} * size[1] * size[2]);
    saved_.resize(kernel.saved_bytes * threads_.size());
    locals_.resize(threads_.size(), std::vector<uint8_t>(kernel.local_bytes));
    block_.shared.resize(kernel.shared_bytes + configuration.dynamic_shared_bytes);
    block_.cells.resize(block_.shared.size() / 4 + 1);
    order_.resize(threads_.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (TheSettings().schedule == Schedule::kEager) {
      std::reverse(order_.begin(), order_.end());
    }
  }

  void Run(const std::array<uint32_t, 3>& block, uint32_t block_number) {
    Reset(block, block_number);
    if (!kernel_.waits) {
      for (const uint32_t i : order_) {
        RunThread(i);
      }
      return;
    }
    while (true) {
      RunReady();
      if (ExchangeInWarps()) {
        continue;
      }
      if (!PassBarrier()) {
        return;
      }
    }
  }

  uint64_t instructions() const { return instructions_; }

 private:
  void Reset(const std::array<uint32_t, 3>& block, uint32_t block_number) {
    std::fill(block_.shared.begin(), block_.shared.end(), 0xFF);
    std::fill(block_.cells.begin(), block_.cells.end(),
              SharedCell{kManyThreads, 0, 0, kManyThreads, kManyThreads, 0, 0});
    block_.phase = 1;
    std::fill(saved_.begin(), saved_.end(), 0);
    if (TheSettings().schedule == Schedule::kSeeded) {
      std::shuffle(order_.begin(), order_.end(), Random());
    }
    for (uint32_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      thread = Thread{};
      thread.thread_in_block[0] = i % launch_.block_size[0];
      thread.thread_in_block[1] = i / launch_.block_size[0] % launch_.block_size[1];
      thread.thread_in_block[2] = i / launch_.block_size[0] / launch_.block_size[1];
      std::copy(block.begin(), block.end(), thread.block_in_grid);
      thread.index = i;
      thread.number = block_number * static_cast<uint32_t>(threads_.size()) + i;
      thread.launch = &launch_;
      thread.block = &block_;
      thread.local = &locals_[i];
    }
  }

  void RunThread(uint32_t i) {
    Thread& thread = threads_[i];
    thread.wait = kernel_.run(parameters_.data(), thread, saved_.data() + i * kernel_.saved_bytes);
    if (thread.wait == Wait::kEnd) {
      instructions_ += thread.instructions;
    }
  }

  void RunReady() {
    for (const uint32_t i : order_) {
      if (threads_[i].wait == Wait::kNothing) {
        RunThread(i);
      }
    }
  }

  bool ExchangeInWarps() {
    bool any = false;
    for (size_t first = 0; first < threads_.size(); first += kWarpSize) {
      const size_t size = std::min<size_t>(kWarpSize, threads_.size() - first);
      any = ExchangeInWarp(std::span(threads_).subspan(first, size)) || any;
    }
    return any;
  }

  // False where all have ended.
  bool PassBarrier() {
    const Thread* waiting = nullptr;
    size_t ended = 0;
    for (const Thread& thread : threads_) {
      if (thread.wait == Wait::kWarp) {
        Fault(thread, "its warp's exchange waits for lanes that never come");
      }
      if (thread.wait == Wait::kEnd) {
        ++ended;
      } else if (waiting == nullptr) {
        waiting = &thread;
      } else if (waiting->resume != thread.resume) {
        Report("barrier", Where(thread) + " waits at another barrier than thread " +
                              std::to_string(waiting->index));
      }
    }
    if (waiting == nullptr) {
      return false;
    }
    if (ended > 0) {
      Report("barrier", Text("%s waits at a barrier that %zu threads of its block have not passed "
                             "and ended",
                             Where(*waiting).c_str(), ended));
    }
    ++block_.phase;
    if (TheSettings().schedule == Schedule::kSeeded) {
      std::shuffle(order_.begin(), order_.end(), Random());
    }
    for (Thread& thread : threads_) {
      if (thread.wait == Wait::kBarrier) {
        thread.wait = Wait::kNothing;
      }
    }
    return true;
  }

  const Kernel& kernel_;
  const Launch& launch_;
  const std::vector<uint8_t>& parameters_;
  std::vector<Thread> threads_;
  std::vector<uint8_t> saved_;
  std::vector<std::vector<uint8_t>> locals_;
  Block block_;
  std::vector<uint32_t> order_;
  uint64_t instructions_ = 0;
};

}  // namespace

KernelRegistration::KernelRegistration(std::vector<Kernel> kernels) {
  for (Kernel& kernel : kernels) {
    Kernels().emplace(kernel.name, std::move(kernel));
  }
}

const Kernel* FindKernel(const std::string& name) {
  const auto found = Kernels().find(name);
  return found == Kernels().end() ? nullptr : &found->second;
}

void Fault(const Thread& thread, const std::string& what) {
  Report("fault", Where(thread) + ": " + what);
  throw DeviceFault{kLaunchFailure};
}

void MemoryFault(const Thread& thread, const char* what, uint64_t address, uint64_t bytes) {
  const bool global = address >= kLocalWindow ? false : address > UINT32_MAX;
  Report("fault", Where(thread) + ": " + what +
                      Text(" %llu bytes at 0x%llx", static_cast<unsigned long long>(bytes),
                           static_cast<unsigned long long>(address)) +
                      (global ? ": " + Describe(address) : ""));
  throw DeviceFault{address % bytes == 0 ? kIllegalAddress : kMisalignedAddress};
}

Allocation* FindForThread(const Thread& thread, uint64_t address, uint64_t bytes) {
  Allocation* const allocation = Find(address, bytes);
  if (allocation == nullptr) {
    Report("fault", Where(thread) +
                        Text(": an access out of bounds, %llu bytes at 0x%llx: ",
                             static_cast<unsigned long long>(bytes),
                             static_cast<unsigned long long>(address)) +
                        Describe(address));
    throw DeviceFault{kIllegalAddress};
  }
  if (!HasPeerAccess(thread.launch->device, allocation->device)) {
    MemoryFault(thread, "an access to another device's memory without peer access,", address,
                bytes);
  }
  return allocation;
}

void NoteSharedRead(Thread& thread, uint64_t address, uint64_t bytes) {
  const uint32_t warp = thread.index / kWarpSize;
  for (uint64_t i = address / 4; i < (address + bytes + 3) / 4; ++i) {
    SharedCell& cell = thread.block->cells[i];
    if (cell.writer == kManyThreads) {
      Report("uninitialised", Where(thread) + Text(" reads shared memory that nobody wrote; byte "
                                                   "%llu",
                                                   static_cast<unsigned long long>(4 * i)));
    } else if (Races(thread, cell.writer, cell.writer / kWarpSize, cell.write_phase,
                     cell.write_warp_phase)) {
      SharedRace(thread, "reads what is written", address, cell.writer);
    }
    if (cell.read_phase != thread.block->phase) {
      cell.reader = thread.index;
      cell.reading_warp = warp;
    } else {
      cell.reader = cell.reader == thread.index ? thread.index : kManyThreads;
      cell.reading_warp = cell.reading_warp == warp ? warp : kManyThreads;
    }
    cell.read_phase = thread.block->phase;
    cell.read_warp_phase = thread.warp_phase;
  }
}

void NoteSharedWrite(Thread& thread, uint64_t address, uint64_t bytes) {
  for (uint64_t i = address / 4; i < (address + bytes + 3) / 4; ++i) {
    SharedCell& cell = thread.block->cells[i];
    if (cell.writer != kManyThreads && Races(thread, cell.writer, cell.writer / kWarpSize,
                                             cell.write_phase, cell.write_warp_phase)) {
      SharedRace(thread, "writes what is written", address, cell.writer);
    }
    if (Races(thread, cell.reader, cell.reading_warp, cell.read_phase, cell.read_warp_phase)) {
      SharedRace(thread, "writes what is read", address, cell.reader);
    }
    cell.writer = thread.index;
    cell.write_phase = thread.block->phase;
    cell.write_warp_phase = thread.warp_phase;
  }
}

bool IsValid(const Kernel& kernel, const LaunchConfiguration& configuration) {
  const auto& [grid, block, dynamic] = configuration;
  const uint64_t threads = uint64_t{block[0]} * block[1] * block[2];
  const uint32_t limit = kernel.max_threads == 0 ? kMaxThreadsPerBlock : kernel.max_threads;
  const bool valid = threads > 0 && threads <= limit && block[2] <= 64 && grid[0] > 0 &&
                     grid[0] <= INT32_MAX && grid[1] > 0 && grid[1] <= UINT16_MAX && grid[2] > 0 &&
                     grid[2] <= UINT16_MAX && kernel.shared_bytes + dynamic <= kMaxSharedBytes;
  if (!valid) {
    Report("misuse", Text("%s: no GPU launches %u x %u x %u blocks of %u x %u x %u threads with "
                          "%u bytes of shared memory",
                          kernel.name, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                          kernel.shared_bytes + dynamic));
  }
  return valid;
}

void RunKernel(const Kernel& kernel, const LaunchConfiguration& configuration, int device,
               const std::vector<uint8_t>& parameters, uint32_t operation) {
  Launch launch{kernel.name, operation, device, {}, {}, {}, 0};
  std::copy(configuration.block.begin(), configuration.block.end(), launch.block_size);
  std::copy(configuration.grid.begin(), configuration.grid.end(), launch.grid_size);
  BlockRun run(kernel, configuration, launch, parameters);
  const auto& grid = configuration.grid;
  const uint64_t blocks = uint64_t{grid[0]} * grid[1] * grid[2];
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t block = TheSettings().schedule == Schedule::kEager ? blocks - 1 - i : i;
    run.Run(
        {static_cast<uint32_t>(block % grid[0]), static_cast<uint32_t>(block / grid[0] % grid[1]),
         static_cast<uint32_t>(block / grid[0] / grid[1])},
        static_cast<uint32_t>(block));
  }
  TheStats().AddLaunch(kernel.name, run.instructions());
}

void EnablePeerAccess(int device, int peer) { Peers().insert({device, peer}); }

bool HasPeerAccess(int device, int peer) {
  return device == peer || Peers().contains({device, peer});
}

}  // namespace monsoon::emulator
