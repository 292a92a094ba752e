// What the program asked of the emulated machine, counted; written at the end of the
// process where MONSOON_EMULATOR_STATS says.
//
// Thread safety: none; the caller holds TheMutex().
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace monsoon::emulator {

struct KernelStats {
  uint64_t launches = 0;
  uint64_t instructions = 0;  // of PTX, by all threads
};

struct Stats {
  std::map<std::string, KernelStats> kernels;  // by mangled name
  uint64_t bytes_to_device = 0;
  uint64_t bytes_to_host = 0;
  uint64_t bytes_on_device = 0;
  uint64_t bytes_to_peer = 0;
  uint64_t copies = 0;
  uint64_t memsets = 0;
  uint64_t products = 0;
  uint64_t product_flops = 0;  // 2 m n k each
  uint64_t allocations = 0;
  uint64_t pinned_allocations = 0;
  uint64_t page_locks = 0;
  uint64_t captures = 0;
  uint64_t graph_launches = 0;
  uint64_t host_calls = 0;  // that put a kernel, product, copy or memset into a stream
  uint64_t host_waits = 0;

  void AddLaunch(const std::string& kernel, uint64_t instructions);
  // One JSON object, one line.
  std::string ToJson() const;
};

Stats& TheStats();

}  // namespace monsoon::emulator
