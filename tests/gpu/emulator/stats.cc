#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {

void Stats::AddLaunch(const std::string& kernel, uint64_t instructions) {
  KernelStats& stats = kernels[kernel];
  ++stats.launches;
  stats.instructions += instructions;
}

std::string Stats::ToJson() const {
  uint64_t launches = 0;
  uint64_t instructions = 0;
  std::string by_kernel;
  for (const auto& [name, kernel] : kernels) {
    launches += kernel.launches;
    instructions += kernel.instructions;
    by_kernel += (by_kernel.empty() ? "" : ", ") + ("\"" + name + "\": {\"launches\": ") +
                 std::to_string(kernel.launches) +
                 ", \"instructions\": " + std::to_string(kernel.instructions) + "}";
  }
  std::string json = "{";
  const auto add = [&json](const char* name, uint64_t value) {
    json += "\"" + std::string(name) + "\": " + std::to_string(value) + ", ";
  };
  add("launches", launches);
  add("instructions", instructions);
  add("bytes_to_device", bytes_to_device);
  add("bytes_to_host", bytes_to_host);
  add("bytes_on_device", bytes_on_device);
  add("bytes_to_peer", bytes_to_peer);
  add("copies", copies);
  add("memsets", memsets);
  add("products", products);
  add("product_flops", product_flops);
  add("allocations", allocations);
  add("pinned_allocations", pinned_allocations);
  add("page_locks", page_locks);
  add("captures", captures);
  add("graph_launches", graph_launches);
  add("host_calls", host_calls);
  add("host_waits", host_waits);
  return json + "\"kernels\": {" + by_kernel + "}}";
}

Stats& TheStats() {
  static Stats* const stats = new Stats;
  return *stats;
}

}  // namespace monsoon::emulator
