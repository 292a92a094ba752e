#include "ps_server/vector/split_work.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(SplitWorkTest, EachItemIsDoneOnceBeforeItReturns) {
  for (const uint32_t count :
       {0u, 1u, 2 * kLeastItemsPerThread - 1, 2 * kLeastItemsPerThread, 1000u}) {
    std::vector<std::atomic<int>> done(count);
    SplitWork(count, [&](uint32_t i) { ++done[i]; });
    for (const std::atomic<int>& times : done) {
      ASSERT_EQ(times, 1) << count;
    }
  }
}

TEST(SplitWorkTest, LittleWorkStaysInTheCallersThread) {
  SplitWork(2 * kLeastItemsPerThread - 1, [caller = std::this_thread::get_id()](uint32_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(SplitWorkTest, NoMoreThreadsThanCores) {
  Mutex mutex;
  std::set<std::thread::id> threads;
  SplitWork(1000, [&](uint32_t) {
    MutexLock lock(&mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(threads.size(), std::min(kMostWorkThreads, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace monsoon
