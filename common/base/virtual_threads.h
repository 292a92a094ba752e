// VirtualThreads: who runs threads where the kernel does not: a simulation, which has one
// thread of the kernel's and picks by its seed which virtual thread of it runs next, until
// that blocks. Mutex, CondVar, Thread and Clock::Real ask for it; all else that
// blocks is not to be called by a virtual thread.
//
// In the product there is none: each of those pays one branch.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace monsoon {

class VirtualThreads {
 public:
  virtual ~VirtualThreads() = default;

  // Of the virtual thread that calls; null: the kernel runs this thread.
  static VirtualThreads* Current() { return current_; }

  // Time since an arbitrary origin; stands still while the caller runs.
  virtual absl::Duration Now() const = 0;

  // The caller waits until somebody wakes up `key`, or for `timeout`, and even for no time
  // lets others run. False: nobody did.
  virtual bool Park(const void* key, absl::Duration timeout) = 0;
  // Those that wait for `key` now, or the one that has waited longest, go on after a while.
  virtual void WakeOne(const void* key) = 0;
  virtual void WakeAll(const void* key) = 0;

  // Runs `body` in a virtual thread of the caller's process; begins after a while.
  virtual uint64_t Start(std::function<void()> body) = 0;
  // Waits until that thread has ended.
  virtual void Join(uint64_t thread) = 0;

 protected:
  static void SetCurrent(VirtualThreads* current) { current_ = current; }

 private:
  static inline constinit thread_local VirtualThreads* current_ = nullptr;
};

}  // namespace monsoon
