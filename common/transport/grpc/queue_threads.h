// QueueThreads: the threads that a server's completion queue needs, and what they bring back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"

namespace monsoon {

// The tag of an operation on the queue of a QueueThreads: what is done when it has come back.
// There are no other tags on such a queue.
struct QueueTag {
  std::function<void(bool ok)> complete;
  // It may take long. Other threads wait at the queue meanwhile, more of them if need be.
  bool may_block = false;
};

// When QueueThreads looks whether the queue is served. Until one more thread has come, connections
// may send calls of some MiB. One too many, where it was only the machine that was busy, does no
// harm for as long as it stays.
struct QueueLooks {
  absl::Duration period = absl::Milliseconds(100);
  absl::Duration patience = absl::Milliseconds(50);
  unsigned calm = 50;  // looks in time, in a row, after which a thread goes
};

// A queue's threads take turns at its events, so that many are slower than few. For those that are
// blocked others take their places. And a connection that sends without a pause keeps the thread to
// itself that reads it, and what it has sent takes memory until another one serves it: when nobody
// brings back what is put on the queue, one more comes soon, up to a bound. When all has long come
// back in time, one goes.
class QueueThreads {
 public:
  // `threads` wait at the queue, and never fewer than half of them.
  QueueThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, unsigned threads,
               const QueueLooks& looks = {});
  // Stops. What is still on the queue refers to the server; the queue itself goes after it.
  ~QueueThreads() { Stop(); }
  QueueThreads(const QueueThreads&) = delete;
  QueueThreads& operator=(const QueueThreads&) = delete;

  // Shuts the queue down and waits until it is empty. The server has been shut down and lives,
  // and nobody begins anything new. May be called again.
  void Stop();

  grpc::ServerCompletionQueue* queue() const { return queue_.get(); }
  // Of threads that wait at the queue, as it is now.
  unsigned places();

 private:
  // A thread's loop.
  void Run();
  // The calling thread leaves the queue, and another one takes its place if too few are left.
  void Leave();
  // It comes back as soon as there is a place.
  void Return();
  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has a thread more wait at the queue.
  void Fill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks now and then whether the queue is served, until Stop.
  void Watch();
  // The look has come back without help.
  void NoteInTime() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const unsigned least_;  // places
  const QueueLooks looks_;
  Mutex mutex_;
  CondVar place_;                            // there is one for a thread that has none, or the end
  CondVar watched_;                          // for Watch: the look has come back, or the end
  unsigned places_ ABSL_GUARDED_BY(mutex_);  // of threads that wait at the queue
  unsigned in_time_ ABSL_GUARDED_BY(mutex_) = 0;  // looks in a row
  unsigned waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // there
  unsigned outside_ ABSL_GUARDED_BY(mutex_) = 0;  // without a place
  unsigned wanted_ ABSL_GUARDED_BY(mutex_) = 0;   // of those, that are to come back
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // the alarm is on the queue
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> too_many_{false};  // wait there: one is to leave
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_;
  QueueTag look_;
  std::thread watcher_;
};

}  // namespace monsoon
