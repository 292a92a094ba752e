#include "tests/simulation/fiber.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

TEST(FiberTest, GoesOnWhereItYielded) {
  FiberStacks stacks;
  std::string log;
  Fiber* inside = nullptr;
  Fiber fiber(&stacks, [&] {
    log += "a";
    inside->Yield();
    log += "b";
    inside->Yield();
    log += "c";
  });
  inside = &fiber;
  EXPECT_EQ(log, "");
  fiber.Resume();
  log += "-";
  fiber.Resume();
  log += "-";
  EXPECT_FALSE(fiber.done());
  fiber.Resume();
  EXPECT_TRUE(fiber.done());
  EXPECT_EQ(log, "a-b-c");
}

TEST(FiberTest, KeepsWhatIsOnItsStack) {
  FiberStacks stacks;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<int> sums(50);
  for (int i = 0; i < 50; ++i) {
    fibers.push_back(std::make_unique<Fiber>(&stacks, [&fibers, &sums, i] {
      std::array<int, 1000> values;
      for (int step = 0; step < 10; ++step) {
        values.fill(i + step);
        fibers[static_cast<size_t>(i)]->Yield();
        for (const int value : values) {
          sums[static_cast<size_t>(i)] += value == i + step ? 1 : 0;
        }
      }
    }));
  }
  for (int step = 0; step < 11; ++step) {
    for (const auto& fiber : fibers) {
      fiber->Resume();
    }
  }
  for (const int sum : sums) {
    EXPECT_EQ(sum, 10000);
  }
}

TEST(FiberTest, AFiberMayResumeAnother) {
  FiberStacks stacks;
  std::string log;
  Fiber* yielding = nullptr;
  Fiber inner(&stacks, [&] {
    log += "i";
    yielding->Yield();
    log += "I";
  });
  yielding = &inner;
  Fiber outer(&stacks, [&] {
    inner.Resume();
    log += "o";
    inner.Resume();
    log += "O";
  });
  outer.Resume();
  EXPECT_EQ(log, "ioIO");
}

TEST(FiberTest, OneThatNeverBeganMayGo) {
  FiberStacks stacks;
  bool ran = false;
  {
    const Fiber fiber(&stacks, [&ran] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(FiberTest, StacksAreUsedAgain) {
  FiberStacks stacks;
  std::byte* const first = stacks.Take();
  stacks.Return(first);
  for (int i = 0; i < 3; ++i) {
    Fiber fiber(&stacks, [] {});
    fiber.Resume();
  }
  EXPECT_EQ(stacks.Take(), first);
  stacks.Return(first);
}

}  // namespace
}  // namespace monsoon::simulation
