// SessionControl: what others want of a running session: go on, pause, drain,
// or stop. The compute thread asks at each step boundary.
//
// A coordinator that was silent for `patience` may have given this replica's
// data away, so the session pauses until it is heard again; what it then says
// decides. Time stands for silence too when the process itself was stopped.
//
// Thread safety: all calls may run concurrently.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/downpour.pb.h"

namespace monsoon {

class SessionControl {
 public:
  enum class State {
    kRunning,
    kDrain,  // finish the step, push the tail, leave
    kStop,   // the session is lost or over: leave at once
  };

  // `clock` must outlive this.
  SessionControl(const Clock* clock, absl::Duration patience);

  // The coordinator answered something about this session.
  void Heard();

  void Drain();
  // Final. Runs the callback of OnStop, in the caller's thread.
  void Stop();
  // What ends blocking calls of the session; runs at once if it was stopped.
  // Cleared with nullptr; returns after a callback that is running.
  void OnStop(std::function<void()> callback);

  // What the coordinator says of the shards. Runs the callback of OnShards, in the
  // caller's thread.
  struct Shards {
    std::vector<uint64_t> epochs;  // one a shard
    bool keep_pushes = true;
  };
  void TellShards(Shards shards);
  // Told whenever it is said, and at once what was said last. Cleared with nullptr;
  // returns after a callback that is running.
  void OnShards(std::function<void(const Shards&)> callback);

  // How many replicas the job has now, as the coordinator says; 1 before.
  void TellReplicas(uint32_t replicas) { replicas_ = std::max(1u, replicas); }
  uint32_t replicas() const { return replicas_; }

  // How many local steps the next difference is to have, as the coordinator says
  // (LocalSteps.dynamic); 0: as many as the job says.
  void TellLocalSteps(uint32_t steps) { local_steps_ = steps; }
  uint32_t local_steps() const { return local_steps_; }

  // What the job's settings have become, as the coordinator says (Assignment.settings_revision).
  struct Settings {
    uint64_t revision = 0;
    Downpour downpour;
  };
  // A revision that is not above the one before says nothing.
  void TellSettings(uint64_t revision, const Downpour& downpour);
  // What was told last, if it is above `known`; else null.
  std::shared_ptr<const Settings> NewerSettings(uint64_t known) const;
  // The session trains with these from now on.
  void TookSettings(uint64_t revision) { taken_settings_ = revision; }
  uint64_t taken_settings() const { return taken_settings_; }

  State state() const;
  bool paused() const;

  // Blocks while paused; the state afterwards. Blocks without end only while
  // the coordinator is silent, and Drain or Stop ends it.
  State AwaitGo();

  // Waits so long, less when it is told to drain meanwhile, or stopped. Returns the state.
  State Sleep(absl::Duration duration);

 private:
  bool PausedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  const absl::Duration patience_;
  std::atomic<uint32_t> replicas_ = 1;
  std::atomic<uint32_t> local_steps_ = 0;
  std::atomic<uint64_t> told_settings_ = 0;  // the revision of settings_
  std::atomic<uint64_t> taken_settings_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kRunning;
  absl::Duration heard_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Settings> settings_ ABSL_GUARDED_BY(mutex_);  // null: none were told
  // Held while the callback runs; before mutex_.
  Mutex callback_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::function<void()> on_stop_ ABSL_GUARDED_BY(callback_mutex_);
  std::function<void(const Shards&)> on_shards_ ABSL_GUARDED_BY(callback_mutex_);
  Shards shards_ ABSL_GUARDED_BY(callback_mutex_);
};

}  // namespace monsoon
