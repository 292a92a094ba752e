#include "worker/session/session_control.h"

#include <utility>

namespace monsoon {
namespace {

// How often a pause looks at the clock again.
constexpr absl::Duration kPausePoll = absl::Milliseconds(50);

}  // namespace

SessionControl::SessionControl(const Clock* clock, absl::Duration patience)
    : clock_(clock), patience_(patience), heard_(clock->Now()) {}

void SessionControl::Heard() {
  {
    MutexLock lock(&mutex_);
    heard_ = clock_->Now();
  }
  changed_.NotifyAll();
}

void SessionControl::Drain() {
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kRunning) {
      state_ = State::kDrain;
    }
  }
  changed_.NotifyAll();
}

void SessionControl::Stop() {
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kStop) {
      return;
    }
    state_ = State::kStop;
  }
  changed_.NotifyAll();
  MutexLock lock(&callback_mutex_);
  if (on_stop_) {
    on_stop_();
  }
}

void SessionControl::OnStop(std::function<void()> callback) {
  MutexLock lock(&callback_mutex_);
  on_stop_ = std::move(callback);
  if (on_stop_ && state() == State::kStop) {
    on_stop_();
  }
}

void SessionControl::TellShards(Shards shards) {
  MutexLock lock(&callback_mutex_);
  shards_ = std::move(shards);
  if (on_shards_) {
    on_shards_(shards_);
  }
}

void SessionControl::OnShards(std::function<void(const Shards&)> callback) {
  MutexLock lock(&callback_mutex_);
  on_shards_ = std::move(callback);
  if (on_shards_ && !shards_.epochs.empty()) {
    on_shards_(shards_);
  }
}

void SessionControl::TellSettings(uint64_t revision, const Downpour& downpour) {
  if (revision <= told_settings_) {
    return;
  }
  auto settings = std::make_shared<const Settings>(Settings{revision, downpour});
  MutexLock lock(&mutex_);
  settings_ = std::move(settings);
  told_settings_ = revision;
}

std::shared_ptr<const SessionControl::Settings> SessionControl::NewerSettings(
    uint64_t known) const {
  if (told_settings_ <= known) {
    return nullptr;  // as at nearly every step
  }
  MutexLock lock(&mutex_);
  return settings_;
}

SessionControl::State SessionControl::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

bool SessionControl::PausedLocked() const {
  return state_ == State::kRunning && clock_->Now() - heard_ > patience_;
}

bool SessionControl::paused() const {
  MutexLock lock(&mutex_);
  return PausedLocked();
}

SessionControl::State SessionControl::AwaitGo() {
  MutexLock lock(&mutex_);
  while (PausedLocked()) {
    changed_.WaitFor(&mutex_, kPausePoll);
  }
  return state_;
}

SessionControl::State SessionControl::Sleep(absl::Duration duration) {
  MutexLock lock(&mutex_);
  // Whoever tries again while the session drains must not do so without a pause.
  changed_.WaitFor(&mutex_, duration, [this, before = state_] {
    mutex_.AssertHeld();
    return state_ != before || state_ == State::kStop;
  });
  return state_;
}

}  // namespace monsoon
