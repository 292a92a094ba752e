#include "tests/simulation/fiber_threads.h"

#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "common/base/virtual_threads.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

class FiberThreadsTest : public ::testing::Test {
 protected:
  void Run() {
    while (time_.RunNext()) {
    }
  }

  FiberStacks stacks_;
  Dice dice_{1};
  VirtualTime time_;
  FiberThreads threads_{&time_, &dice_, &stacks_};
};

TEST_F(FiberThreadsTest, SleepsInVirtualTime) {
  absl::Duration slept;
  threads_.StartIn(nullptr, [&] {
    const absl::Duration before = Clock::Real()->Now();
    Thread::SleepFor(absl::Hours(5));
    slept = Clock::Real()->Now() - before;
  });
  Run();
  EXPECT_EQ(slept, absl::Hours(5));
  EXPECT_EQ(threads_.running(), 0u);
}

TEST_F(FiberThreadsTest, AMutexKeepsThreadsApartThatBlockUnderIt) {
  Mutex mutex;
  int inside = 0, most = 0, done = 0;
  for (int i = 0; i < 5; ++i) {
    threads_.StartIn(nullptr, [&] {
      for (int round = 0; round < 10; ++round) {
        MutexLock lock(&mutex);
        most = std::max(most, ++inside);
        Thread::SleepFor(absl::Milliseconds(1));
        --inside;
        ++done;
      }
    });
  }
  Run();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 50);
}

// The kernel's thread that lets go of the mutex wakes up nobody virtual.
TEST_F(FiberThreadsTest, AMutexOfTheKernelsThreadsIsTakenAsAnEventTakesIt) {
  Mutex mutex;
  std::binary_semaphore held(0), waits(0);
  std::thread other([&] {
    MutexLock lock(&mutex);
    held.release();
    waits.acquire();
  });
  held.acquire();
  bool taken = false;
  threads_.StartIn(nullptr, [&] {
    threads_.CallAsEvent([&] {
      EXPECT_EQ(VirtualThreads::Current(), nullptr);
      waits.release();
      MutexLock lock(&mutex);
      taken = true;
    });
    EXPECT_EQ(VirtualThreads::Current(), &threads_);
    Thread::SleepFor(absl::Milliseconds(1));
  });
  Run();
  other.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(threads_.running(), 0u);
}

TEST_F(FiberThreadsTest, AConditionWakesAndTimesOut) {
  Mutex mutex;
  CondVar changed;
  bool set = false;
  std::vector<std::string> log;
  threads_.StartIn(nullptr, [&] {
    MutexLock lock(&mutex);
    log.push_back(changed.WaitFor(&mutex, absl::Seconds(1), [&] { return set; }) ? "set" : "late");
    log.push_back(changed.WaitFor(&mutex, absl::Seconds(9), [&] { return set; }) ? "set" : "late");
    log.push_back(changed.WaitFor(&mutex, absl::Seconds(1)) ? "woken" : "late");
  });
  threads_.StartIn(nullptr, [&] {
    Thread::SleepFor(absl::Seconds(3));
    MutexLock lock(&mutex);
    set = true;
    changed.NotifyAll();
  });
  const absl::Duration begin = time_.now();
  Run();
  EXPECT_EQ(log, (std::vector<std::string>{"late", "set", "late"}));
  EXPECT_LT(time_.now() - begin, absl::Seconds(11));
}

TEST_F(FiberThreadsTest, AThreadIsJoined) {
  std::string log;
  threads_.StartIn(nullptr, [&] {
    Thread inner([&log] {
      Thread::SleepFor(absl::Seconds(1));
      log += "inner ";
    });
    Thread quick([&log] { log += "quick "; });
    inner.Join();
    quick.Join();  // has ended long ago
    EXPECT_FALSE(inner.joinable());
    log += "outer";
  });
  Run();
  EXPECT_EQ(log, "quick inner outer");
}

TEST_F(FiberThreadsTest, AnEventWakesAThread) {
  int key = 0;
  std::vector<bool> woken;
  threads_.StartIn(nullptr, [&] {
    woken.push_back(threads_.Park(&key, absl::InfiniteDuration()));
    woken.push_back(threads_.Park(&key, absl::ZeroDuration()));
  });
  time_.After(absl::Seconds(2), [&] { threads_.WakeOne(&key); });
  Run();
  EXPECT_EQ(woken, (std::vector<bool>{true, false}));
}

TEST_F(FiberThreadsTest, AThreadStandsStillWithItsProcessButNotWhenThatIsDead) {
  SimulatedProcess process{.alive = true, .life = 1};
  std::vector<int64_t> seconds;
  const absl::Duration begin = time_.now();
  threads_.StartIn(&process, [&] {
    for (int i = 0; i < 4; ++i) {
      Thread::SleepFor(absl::Seconds(1));
      seconds.push_back(absl::ToInt64Seconds(time_.now() - begin));
    }
  });
  time_.After(absl::Milliseconds(1500), [&] { process.wakes_at = begin + absl::Seconds(10); });
  time_.After(absl::Milliseconds(10500), [&] {
    process.wakes_at = begin + absl::Hours(10);
    process.alive = false;
  });
  Run();
  EXPECT_EQ(seconds, (std::vector<int64_t>{1, 10, 11, 12}));
}

TEST_F(FiberThreadsTest, TheOrderIsTheSeeds) {
  const auto order = [](uint64_t seed) {
    FiberStacks stacks;
    Dice dice(seed);
    VirtualTime time;
    FiberThreads threads(&time, &dice, &stacks);
    std::string log;
    for (int i = 0; i < 8; ++i) {
      threads.StartIn(nullptr, [&log, i] { absl::StrAppend(&log, i); });
    }
    while (time.RunNext()) {
    }
    return log;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace monsoon::simulation
