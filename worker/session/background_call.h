// BackgroundCall: a thread that runs one call at a time for one owner: the
// fetch, push and work threads are each one, and those of batch jobs.
//
//   BackgroundCall<absl::StatusOr<StripeMarks>> fetcher;
//   fetcher.Start([&] { return access->Fetch(buffer); });
//   ... compute ...
//   if (auto landed = fetcher.TryTake()) { ... }
//
// At most one call is in flight: Start needs the last result to be taken.
// Thread safety: Start, TryTake and WaitTake belong to the owner's thread. The
// destructor waits for the running call, which must therefore be bounded.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"

namespace monsoon {

template <typename Result>
class BackgroundCall {
 public:
  BackgroundCall() : thread_([this] { Run(); }) {}
  ~BackgroundCall() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.Join();
  }
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  void Start(std::function<Result()> call) {
    {
      MutexLock lock(&mutex_);
      CHECK(!busy_);
      busy_ = true;
      call_ = std::move(call);
    }
    changed_.NotifyAll();
  }

  // True from Start until the result is taken.
  bool busy() const {
    MutexLock lock(&mutex_);
    return busy_;
  }

  // The result if the call has returned; does not block.
  std::optional<Result> TryTake() { return WaitTake(absl::ZeroDuration()); }

  // The result once the call has returned, or nothing after `timeout` or when
  // no call was started.
  std::optional<Result> WaitTake(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    if (!busy_) {
      return std::nullopt;
    }
    if (!result_.has_value() && timeout <= absl::ZeroDuration()) {
      return std::nullopt;  // even a wait for no time gives the core away
    }
    const bool landed = changed_.WaitFor(&mutex_, timeout, [this] {
      mutex_.AssertHeld();
      return result_.has_value();
    });
    if (!landed) {
      return std::nullopt;
    }
    busy_ = false;
    std::optional<Result> result = std::move(result_);
    result_.reset();
    return result;
  }

 private:
  // Bounds one wait only; the loop goes on.
  static constexpr absl::Duration kSlice = absl::Seconds(60);

  void Run() {
    while (true) {
      std::function<Result()> call;
      {
        MutexLock lock(&mutex_);
        changed_.WaitFor(&mutex_, kSlice, [this] {
          mutex_.AssertHeld();
          return stopping_ || call_ != nullptr;
        });
        if (stopping_) {
          return;
        }
        if (call_ == nullptr) {
          continue;
        }
        call = std::exchange(call_, nullptr);
      }
      Result result = call();
      {
        MutexLock lock(&mutex_);
        result_.emplace(std::move(result));
      }
      changed_.NotifyAll();
    }
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::function<Result()> call_ ABSL_GUARDED_BY(mutex_);
  std::optional<Result> result_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace monsoon
