#include "common/base/thread.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/virtual_threads.h"

namespace monsoon {

Thread::Thread(std::function<void()> body) {
  if (VirtualThreads* const threads = VirtualThreads::Current()) {
    virtual_ = threads->Start(std::move(body));
  } else {
    thread_ = std::thread(std::move(body));
  }
}

Thread::Thread(Thread&& other) noexcept
    : thread_(std::move(other.thread_)), virtual_(std::exchange(other.virtual_, std::nullopt)) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  CHECK(!joinable());
  thread_ = std::move(other.thread_);
  virtual_ = std::exchange(other.virtual_, std::nullopt);
  return *this;
}

Thread::~Thread() { CHECK(!joinable()); }

void Thread::Join() {
  if (const std::optional<uint64_t> joined = std::exchange(virtual_, std::nullopt)) {
    VirtualThreads* const threads = VirtualThreads::Current();
    CHECK(threads != nullptr);  // the kernel's threads cannot wait for a virtual one
    threads->Join(*joined);
  } else {
    thread_.join();
  }
}

void Thread::LetGo() {
  if (!std::exchange(virtual_, std::nullopt).has_value()) {
    thread_.detach();
  }
}

void Thread::SleepFor(absl::Duration duration) {
  if (VirtualThreads* const threads = VirtualThreads::Current()) {
    threads->Park(nullptr, duration);
  } else {
    absl::SleepFor(duration);
  }
}

}  // namespace monsoon
