// Fiber: a function with a stack of its own, which runs in the thread that resumes it until it
// yields or returns. So blocking code can be run a piece at a time, many of them in one thread
// of the kernel.
//
// Not thread safe: a fiber and its stack belong to one thread of the kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace monsoon::simulation {

// Memory of stacks, used again. Outlives its fibers.
class FiberStacks {
 public:
  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // Pages that were never used cost nothing; the one below each stack cannot be touched.
  static constexpr size_t kStackBytes = 512 << 10;

  std::byte* Take();
  void Return(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> all_;
  std::vector<std::byte*> free_;
};

class Fiber {
 public:
  // Nothing of `body` runs before the first Resume. It must not throw.
  Fiber(FiberStacks* stacks, std::function<void()> body);
  // The body has returned, or never began.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body on until it yields or returns.
  void Resume();
  bool done() const { return done_; }

  // Of the fiber that calls: goes on where it was resumed.
  void Yield();

 private:
  struct Context;

  static void Enter(unsigned high, unsigned low);
  void Run();
  // Switches from one context to the other; AddressSanitizer is told of it.
  void SwitchIn();
  void SwitchOut(bool for_good);

  FiberStacks* const stacks_;
  std::function<void()> body_;
  std::byte* const stack_;
  const std::unique_ptr<Context> context_;
  bool began_ = false;
  bool done_ = false;
};

}  // namespace monsoon::simulation
