// InFlight: counts the requests being served, so that a drain can wait for
// them. Thread safe.
#pragma once

#include <cstdint>

#include "common/base/mutex.h"

namespace monsoon {

class InFlight {
 public:
  // Counts from construction to destruction.
  class Scope {
   public:
    explicit Scope(InFlight* counter) : counter_(counter) { counter_->Add(1); }
    ~Scope() { counter_->Add(-1); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    InFlight* const counter_;
  };

  // Waits until nothing is being served; false after `timeout`.
  bool WaitIdle(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    return idle_.WaitFor(&mutex_, timeout, [this] {
      mutex_.AssertHeld();
      return count_ == 0;
    });
  }

 private:
  void Add(int64_t change) {
    MutexLock lock(&mutex_);
    count_ += change;
    if (count_ == 0) {
      idle_.NotifyAll();
    }
  }

  Mutex mutex_;
  CondVar idle_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
