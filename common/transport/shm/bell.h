// Bell: how one thread tells another one, maybe of another process, that
// something in shared memory has changed. The waiting side spins for a moment, where
// that has been of use (SpinHabit), and then sleeps on a futex; ringing costs a system
// call only for the first one to wake it.
//
// One thread at a time waits for a bell; any may ring it. A hostile peer can
// wake the waiter for nothing or never: every wait has a timeout, and what it
// waits for must not be told by the bell.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace monsoon {

// Lies in shared memory; zeros are its first state.
struct alignas(64) Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleeping;  // 1: the next ring must wake the waiter
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// After what it tells of was stored.
void Ring(Bell* bell);

namespace internal {

// How long a wait spins: the round trip of a small request takes less, and
// somebody who needs the core gets it soon.
inline constexpr absl::Duration kSpin = absl::Microseconds(10);

void Pause();
// Sleeps until `sleeping` is no longer 1, or the time is over. A ringer that comes
// late, for an earlier sleep, ends this one too: the flag is what is slept on.
void SleepUntilRing(Bell* bell, absl::Duration timeout);

}  // namespace internal

// Whether a waiter's spinning is worth its time. It is where answers come at once. Where
// they take long, or the peer needs the core on which the waiter spins, it only keeps
// others from working: after some spins in vain there is one now and then, to see whether
// that has changed. Belongs to one waiter; ordinary memory.
class SpinHabit {
 public:
  bool Spins() { return in_vain_ < kGivesUpAfter || ++left_out_ % kTriesEach == 0; }
  // How the spin has ended that Spins() asked for.
  void Note(bool was_of_use) { in_vain_ = was_of_use ? 0 : std::min(in_vain_ + 1, kGivesUpAfter); }

 private:
  static constexpr uint32_t kGivesUpAfter = 8;
  static constexpr uint32_t kTriesEach = 32;

  uint32_t in_vain_ = 0;  // in a row
  uint32_t left_out_ = 0;
};

// Waits until `ready()` holds, whose state changes before a ring. False after
// `timeout`. Without a `habit` it spins each time.
template <typename Ready>
bool WaitForBell(Bell* bell, SpinHabit* habit, absl::Duration timeout, Ready ready) {
  constexpr int kPausesPerLook = 16;  // at the clock
  if (ready()) {
    return true;
  }
  const absl::Duration start = Clock::Real()->Now();
  if (timeout > absl::ZeroDuration() && (habit == nullptr || habit->Spins())) {
    const absl::Duration end = start + std::min(timeout, internal::kSpin);
    bool done = false;
    do {
      for (int i = 0; i < kPausesPerLook && !done; ++i) {
        internal::Pause();
        done = ready();
      }
    } while (!done && Clock::Real()->Now() < end);
    if (habit != nullptr) {
      habit->Note(done);
    }
    if (done) {
      return true;
    }
  }
  while (true) {
    // Sequentially consistent, as in Ring: either the waiter sees the new count,
    // and so what it tells of, or the ringer sees that it sleeps.
    bell->sleeping.store(1);
    bell->rings.load();
    const bool done = ready();
    const absl::Duration left = start + timeout - Clock::Real()->Now();
    if (!done && left > absl::ZeroDuration()) {
      internal::SleepUntilRing(bell, left);
    }
    bell->sleeping.store(0, std::memory_order_relaxed);
    if (done || left <= absl::ZeroDuration()) {
      return done;
    }
  }
}

template <typename Ready>
bool WaitForBell(Bell* bell, absl::Duration timeout, Ready ready) {
  return WaitForBell(bell, /*habit=*/nullptr, timeout, ready);
}

}  // namespace monsoon
