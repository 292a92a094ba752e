#include "common/base/mutex.h"

#include <thread>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

struct Box {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, KeepsIncrementsApart) {
  Box box;
  auto count = [&box] {
    for (int i = 0; i < 1000; ++i) {
      MutexLock lock(&box.mutex);
      ++box.value;
    }
  };
  std::jthread other(count);
  count();
  other.join();
  MutexLock lock(&box.mutex);
  EXPECT_EQ(box.value, 2000);
}

TEST(CondVarTest, WakesOnNotification) {
  Box box;
  std::jthread other([&box] {
    MutexLock lock(&box.mutex);
    box.value = 1;
    box.changed.NotifyAll();
  });
  MutexLock lock(&box.mutex);
  EXPECT_TRUE(box.changed.WaitFor(&box.mutex, absl::InfiniteDuration(), [&box] {
    box.mutex.AssertHeld();
    return box.value == 1;
  }));
}

TEST(CondVarTest, GivesUpAtTheTimeout) {
  Box box;
  MutexLock lock(&box.mutex);
  EXPECT_FALSE(box.changed.WaitFor(&box.mutex, absl::Milliseconds(5), [] { return false; }));
  EXPECT_FALSE(box.changed.WaitFor(&box.mutex, -absl::InfiniteDuration(), [] { return false; }));
}

TEST(MutexTest, TryLockSaysWhetherItGotIt) {
  Box box;
  box.mutex.Lock();
  std::jthread([&box] { EXPECT_FALSE(box.mutex.TryLock()); }).join();
  box.mutex.Unlock();
  if (!box.mutex.TryLock()) {
    FAIL() << "a free mutex was not taken";
  }
  box.mutex.Unlock();
}

}  // namespace
}  // namespace monsoon
