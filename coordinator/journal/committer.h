// Committer: brings a coordinator's updates to its journal, many calls with one write,
// and tells when a call's are there. What leaves the coordinator waits for that.
//
// A call is a unit: all of its updates are in one commit. Updates that nothing rests on
// (MayLag) wait for others, but not long. A commit that fails is repeated without end, and
// what comes meanwhile goes with it.
//
// Thread safety: Add and EndCall belong to whoever holds the coordinator's lock; the
// others may be called by any thread, without it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "coordinator/journal/journal.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class Committer {
 public:
  // Null: nothing is kept, and everything counts as committed. `clock` outlives this.
  Committer(std::unique_ptr<Journal> journal, const Clock* clock);
  // Tries once more to commit what is left.
  ~Committer();

  // An update of the call that is under way.
  void Add(const StateUpdate& update);
  // It has ended, at `at` of the coordinator's clock. The ticket of the newest call that
  // something rests on: what follows from this one must wait for it.
  uint64_t EndCall(absl::Duration at);

  // False: it was not committed within `timeout`.
  bool Await(uint64_t ticket, absl::Duration timeout);
  // No Await waits any longer.
  void Stop();
  // Why the journal cannot be written now; "": it can.
  std::string trouble() const;
  // False: nothing is kept.
  bool keeps() const { return journal_ != nullptr; }
  // Journal::commits(), as of the newest commit.
  uint64_t commits() const;

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Journal> journal_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  StateUpdates pending_ ABSL_GUARDED_BY(mutex_);
  bool call_matters_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;      // that changed anything
  uint64_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;     // the newest that something rests on
  uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;  // all up to this one
  int sealed_ ABSL_GUARDED_BY(mutex_) = 0;          // pending updates of ended calls
  absl::Duration at_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();     // of the newest call
  absl::Duration since_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();  // the oldest pending
  uint64_t commits_ ABSL_GUARDED_BY(mutex_) = 0;                         // of the journal
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace monsoon
