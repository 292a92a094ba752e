// ReplicaThread: a thread that runs one call at a time, and that its owner can
// give up when a call does not return: the thread then ends by itself once the
// call does, and until then keeps alive what the call captured.
//
// Thread safety: none; one owner calls everything. A call must capture by value
// (shared pointers) all that it touches after it may have been given up.
#pragma once

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"

namespace monsoon {

class ReplicaThread {
 public:
  ReplicaThread();
  // Waits for the running call, unless it was given up.
  ~ReplicaThread();
  ReplicaThread(const ReplicaThread&) = delete;
  ReplicaThread& operator=(const ReplicaThread&) = delete;

  // Runs `call` after the one before has returned; at most one waits.
  void Start(std::function<void()> call);

  // Final: nobody waits for this thread any more.
  void GiveUp();

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    std::function<void()> call ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };

  static void Run(State& state);
  void Stop();

  const std::shared_ptr<State> state_;  // shared with the thread
  Thread thread_;
};

}  // namespace monsoon
