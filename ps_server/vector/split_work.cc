#include "ps_server/vector/split_work.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace monsoon {

void SplitWork(uint32_t count, absl::FunctionRef<void(uint32_t)> work) {
  const uint32_t threads = std::min(
      {std::thread::hardware_concurrency(), kMostWorkThreads, count / kLeastItemsPerThread});
  if (threads <= 1) {
    for (uint32_t i = 0; i < count; ++i) {
      work(i);
    }
    return;
  }
  std::atomic<uint32_t> next{0};
  const auto run = [&] {
    for (uint32_t i = next++; i < count; i = next++) {
      work(i);
    }
  };
  std::vector<std::jthread> others;
  for (uint32_t thread = 1; thread < threads; ++thread) {
    others.emplace_back(run);
  }
  run();
}

}  // namespace monsoon
