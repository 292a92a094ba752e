// Mutex, MutexLock and CondVar: std::mutex with clang's thread-safety
// annotations, so that `clang -Wthread-safety` checks every ABSL_GUARDED_BY.
// std::timed_mutex and Debian's absl::Mutex are avoided, because ThreadSanitizer
// misjudges the one and cannot see the other.
//
// Every wait takes a timeout. Timeouts run on the steady clock, so a step of
// the system clock does not move them.
//
// A virtual thread (virtual_threads.h) parks where another would block. One mutex or
// condition is used by virtual threads of one kind or by the kernel's, not by both at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/virtual_threads.h"

namespace monsoon {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      LockVirtually(threads);
    } else {
      mutex_.lock();
    }
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    mutex_.unlock();
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      threads->WakeOne(this);
    }
  }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  // Tells the analysis, not the program, that the lock is held: for lambdas
  // that run under it.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  // The owner may be another virtual thread of the same thread of the kernel: POSIX lets a
  // try fail then, where a lock would never return.
  void LockVirtually(VirtualThreads* threads) {
    while (!mutex_.try_lock()) {
      threads->Park(this, absl::InfiniteDuration());
    }
  }

  std::mutex mutex_;
};

// Holds a Mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mutex`, waits for a notification or the end of `timeout`, and
  // takes it again. False: the time is over. May wake up without cause.
  bool WaitFor(Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      return ParkFor(threads, mutex, timeout);
    }
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_for(lock, Chrono(timeout)) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }

  // Waits until `done()` holds, which is called under `mutex` (begin it with
  // mutex.AssertHeld() where the analysis must know). Returns its last value.
  template <typename Predicate>
  bool WaitFor(Mutex* mutex, absl::Duration timeout, Predicate done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      const absl::Duration end = threads->Now() + timeout;
      while (!done()) {
        if (!ParkFor(threads, mutex, end - threads->Now())) {
          return done();
        }
      }
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool result = condition_.wait_for(lock, Chrono(timeout), std::move(done));
    lock.release();
    return result;
  }

  void NotifyOne() {
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      threads->WakeOne(this);
    }
    condition_.notify_one();
  }
  void NotifyAll() {
    if (VirtualThreads* const threads = VirtualThreads::Current()) [[unlikely]] {
      threads->WakeAll(this);
    }
    condition_.notify_all();
  }

 private:
  // No virtual thread runs between the two.
  bool ParkFor(VirtualThreads* threads, Mutex* mutex, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex->Unlock();
    const bool woken = threads->Park(this, timeout);
    mutex->Lock();
    return woken;
  }

  // Longer waits are cut here: steady_clock::now() + timeout must not overflow.
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365);

  static std::chrono::nanoseconds Chrono(absl::Duration timeout) {
    if (timeout > kLongest) {
      timeout = kLongest;
    }
    return timeout > absl::ZeroDuration() ? absl::ToChronoNanoseconds(timeout)
                                          : std::chrono::nanoseconds::zero();
  }

  std::condition_variable condition_;
};

}  // namespace monsoon
