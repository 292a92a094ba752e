#include "common/transport/grpc/shared_queue.h"

#include <algorithm>

#include "common/base/clock.h"

namespace monsoon {
namespace {

gpr_timespec After(absl::Duration span) {
  const int64_t nanoseconds = std::max<int64_t>(0, absl::ToInt64Nanoseconds(span));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(nanoseconds, GPR_TIMESPAN));
}

}  // namespace

std::shared_ptr<SharedQueue> SharedQueue::Get() {
  static Mutex* const mutex = new Mutex();
  static std::weak_ptr<SharedQueue>* const current = new std::weak_ptr<SharedQueue>();
  MutexLock lock(mutex);
  std::shared_ptr<SharedQueue> queue = current->lock();
  if (queue == nullptr) {
    queue = std::make_shared<SharedQueue>();
    *current = queue;
  }
  return queue;
}

SharedQueue::~SharedQueue() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool SharedQueue::polling() {
  MutexLock lock(&mutex_);
  return polling_ != nullptr;
}

void SharedQueue::Start(const std::function<void()>& start) {
  if (!polling()) {
    start();  // the caller is about to poll
    return;
  }
  void* tag;
  bool ok;
  if (queue_.DoThenAsyncNext(start, &tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) ==
      grpc::CompletionQueue::GOT_EVENT) {
    Deliver(tag, ok, /*port=*/nullptr);
  }
}

std::optional<SharedQueue::Completion> SharedQueue::Next(Port* port, absl::Duration timeout) {
  const absl::Duration end = Clock::Real()->Now() + timeout;
  MutexLock lock(&mutex_);
  for (absl::Duration left = timeout; port->completions_.empty() && !port->woken_;
       left = end - Clock::Real()->Now()) {
    if (polling_ == nullptr) {
      polling_ = port;
      mutex_.Unlock();
      Poll(port, left);  // looks once though no time is left
      mutex_.Lock();
      polling_ = nullptr;
      break;
    }
    if (left <= absl::ZeroDuration()) {
      break;
    }
    const auto place = waiting_.insert(waiting_.end(), port);
    port->wake_->WaitFor(&mutex_, left, [this, port] {
      mutex_.AssertHeld();
      return polling_ == nullptr || !port->completions_.empty() || port->woken_;
    });
    waiting_.erase(place);
  }
  if (polling_ == nullptr && !waiting_.empty()) {
    waiting_.back()->wake_->NotifyOne();  // to poll from now on
  }
  if (port->completions_.empty()) {
    port->woken_ = false;
    return std::nullopt;
  }
  const Completion completion = port->completions_.front();
  port->completions_.pop_front();
  return completion;
}

void SharedQueue::Wake(Port* port) {
  std::shared_ptr<CondVar> wake;
  {
    MutexLock lock(&mutex_);
    port->woken_ = true;
    if (polling_ == port) {
      Kick();
      return;
    }
    wake = port->wake_;
  }
  wake->NotifyOne();
}

void SharedQueue::Kick() {
  if (!kicked_) {
    kicked_ = true;
    alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), /*tag=*/nullptr);
  }
}

void SharedQueue::Poll(Port* port, absl::Duration timeout) {
  const gpr_timespec end = After(timeout);
  void* tag;
  bool ok;
  while (queue_.AsyncNext(&tag, &ok, end) == grpc::CompletionQueue::GOT_EVENT) {
    if (Deliver(tag, ok, port)) {
      return;
    }
  }
}

bool SharedQueue::Deliver(void* tag, bool ok, const Port* port) {
  auto* const operation = static_cast<Operation*>(tag);
  std::shared_ptr<CondVar> wake;
  {
    MutexLock lock(&mutex_);
    if (operation == nullptr) {
      kicked_ = false;
    } else {
      operation->port->completions_.push_back({operation, ok});
    }
    if (port != nullptr && (!port->completions_.empty() || port->woken_)) {
      return true;
    }
    // Start takes what comes back at once, maybe also what the polling thread
    // waits for.
    if (polling_ != nullptr && polling_ != port &&
        (!polling_->completions_.empty() || polling_->woken_)) {
      Kick();
    }
    if (operation == nullptr || operation->port == polling_) {
      return false;
    }
    wake = operation->port->wake_;
  }
  wake->NotifyOne();
  return false;
}

}  // namespace monsoon
