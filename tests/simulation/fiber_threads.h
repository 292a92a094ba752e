// FiberThreads: virtual threads (common/base/virtual_threads.h) as fibers in virtual time:
// one runs at a time, until it blocks, and costs no time; when one that may go on does so
// the seed says. So the code of real processes runs in a simulation as it is.
//
// A thread belongs to a life of a process, and stands still while that does. The threads of
// a life that is over go on, so that they can come to their end, but nobody hears them: that
// is for what they talk through to see to (ProcessLife::over).
//
// Not thread safe: one thread of the kernel.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/virtual_threads.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/fiber.h"
#include "tests/simulation/simulated_process.h"
#include "tests/simulation/virtual_time.h"

namespace monsoon::simulation {

class FiberThreads : public VirtualThreads {
 public:
  // `stacks` may be another's later.
  FiberThreads(VirtualTime* time, Dice* dice, FiberStacks* stacks)
      : time_(time), dice_(dice), stacks_(stacks) {}
  // All threads have ended.
  ~FiberThreads() override;

  // Runs `body` in a thread of the life that `process` has now, or of none if it is null. By
  // an event, not by a virtual thread.
  uint64_t StartIn(const SimulatedProcess* process, std::function<void()> body);

  // Calls `what` as an event would, from a virtual thread: what waits in it blocks the thread of
  // the kernel, and time stands still. For what threads of the kernel's wake up, who know of no
  // virtual one.
  void CallAsEvent(absl::FunctionRef<void()> what);

  size_t running() const { return threads_.size(); }
  // Runs on that have begun, of all threads: a measure of work.
  uint64_t switches() const { return switches_; }

  // Fails the running test where a thread asks again and again and never blocks, and lets time
  // pass.
  absl::Duration Now() const override;
  bool Park(const void* key, absl::Duration timeout) override;
  // These two also by events.
  void WakeOne(const void* key) override;
  void WakeAll(const void* key) override;
  uint64_t Start(std::function<void()> body) override;
  void Join(uint64_t thread) override;

 private:
  struct VirtualThread {
    VirtualThread(FiberStacks* stacks, ProcessLife of, std::function<void()> body)
        : life(of), fiber(stacks, std::move(body)) {}

    const ProcessLife life;
    Fiber fiber;
    uint32_t parks = 0;  // so often it was parked: an event of an earlier time is void
    bool woken = false;
    const void* key = nullptr;  // what it waits for
  };

  uint64_t Add(ProcessLife life, std::function<void()> body);
  void ResumeAfter(absl::Duration delay, uint32_t thread, uint32_t parks);
  void Resume(uint32_t thread, uint32_t parks);
  void Wake(uint32_t thread);
  void StopWaiting(uint32_t id, VirtualThread* thread);

  VirtualTime* const time_;
  Dice* const dice_;
  FiberStacks* const stacks_;
  std::unordered_map<uint32_t, std::unique_ptr<VirtualThread>> threads_;
  std::unordered_map<const void*, std::deque<uint32_t>> waiting_;  // by key, never empty
  uint32_t last_ = 0;
  uint32_t current_ = 0;  // 0: none runs
  uint64_t switches_ = 0;
  mutable uint32_t asked_ = 0;  // for the time, since it was resumed
};

}  // namespace monsoon::simulation
