// SharedQueue: one gRPC completion queue for all transports of a process. Of the
// threads that wait, one polls for all of them and wakes whoever something has
// come for; a thread that waits alone polls for itself. Were each to poll a queue
// of its own, gRPC would pass the polling from thread to thread at every event,
// and hundreds of connections would spend their time on that.
//
// Thread safe; each port is used by one thread at a time.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"

namespace monsoon {

class SharedQueue {
 public:
  class Port;

  // One operation's tag; lives until the operation has come back.
  struct Operation {
    Port* port;
  };
  struct Completion {
    Operation* operation;
    bool ok;
  };

  // Where the operations of one transport come back. None is outstanding when it
  // is destroyed.
  class Port {
   private:
    friend class SharedQueue;
    std::deque<Completion> completions_;  // under the queue's lock
    bool woken_ = false;                  // likewise
    // Shared with whoever rings it after the lock, when the port may be gone.
    const std::shared_ptr<CondVar> wake_ = std::make_shared<CondVar>();
  };

  // The process's, as long as somebody holds it.
  static std::shared_ptr<SharedQueue> Get();

  SharedQueue() = default;
  ~SharedQueue();

  grpc::CompletionQueue* queue() { return &queue_; }

  // Runs `start`, which begins an operation of the caller's port. What comes back
  // at once needs nobody else's help.
  void Start(const std::function<void()>& start);

  // Waits for the next completion of `port`; nothing after `timeout`, or when it is woken.
  std::optional<Completion> Next(Port* port, absl::Duration timeout);
  // Ends the Next that the port's thread is in, or else the next one that finds no completion. By
  // any thread.
  void Wake(Port* port);

 private:
  bool polling();
  // Wakes the thread that polls, to look what has come for it.
  void Kick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Polls until something has come for `port`, for `timeout` at most, and hands
  // over what comes for others.
  void Poll(Port* port, absl::Duration timeout);
  // True: something has come for `port`.
  bool Deliver(void* tag, bool ok, const Port* port);

  grpc::CompletionQueue queue_;
  Mutex mutex_;
  Port* polling_ ABSL_GUARDED_BY(mutex_) = nullptr;  // whose thread polls
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;      // the alarm has not come back
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  std::list<Port*> waiting_ ABSL_GUARDED_BY(mutex_);  // for the one that polls
};

}  // namespace monsoon
