#include "tests/simulation/fiber_threads.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

// What waking up takes: so threads overtake each other.
constexpr absl::Duration kMostDelay = absl::Microseconds(30);
// Whoever asks for no time at all, again and again, must not keep time from passing.
constexpr absl::Duration kLeastPark = absl::Microseconds(1);
// Nobody asks so often for the time who means to wait.
constexpr uint32_t kMostAsks = 100000;

}  // namespace

FiberThreads::~FiberThreads() { CHECK(threads_.empty()); }

uint64_t FiberThreads::StartIn(const SimulatedProcess* process, std::function<void()> body) {
  CHECK_EQ(current_, 0u);
  return Add(ProcessLife(process), std::move(body));
}

uint64_t FiberThreads::Start(std::function<void()> body) {
  CHECK_NE(current_, 0u);
  return Add(threads_.at(current_)->life, std::move(body));
}

uint64_t FiberThreads::Add(ProcessLife life, std::function<void()> body) {
  const uint32_t id = ++last_;
  threads_.emplace(id, std::make_unique<VirtualThread>(stacks_, life, std::move(body)));
  ResumeAfter(dice_->Between(absl::ZeroDuration(), kMostDelay), id, 0);
  return id;
}

void FiberThreads::ResumeAfter(absl::Duration delay, uint32_t thread, uint32_t parks) {
  // Small enough for a std::function without memory of its own.
  time_->After(delay, [this, thread, parks] { Resume(thread, parks); });
}

void FiberThreads::Resume(uint32_t id, uint32_t parks) {
  const auto found = threads_.find(id);
  if (found == threads_.end() || found->second->parks != parks) {
    return;
  }
  VirtualThread& thread = *found->second;
  if (const absl::Duration wakes_at = thread.life.wakes_at(); wakes_at > time_->now()) {
    return ResumeAfter(wakes_at - time_->now(), id, parks);
  }
  StopWaiting(id, &thread);
  ++switches_;
  asked_ = 0;
  current_ = id;
  SetCurrent(this);
  thread.fiber.Resume();
  SetCurrent(nullptr);
  current_ = 0;
  if (thread.fiber.done()) {
    WakeAll(&thread);
    threads_.erase(id);
  }
}

absl::Duration FiberThreads::Now() const {
  if (current_ != 0 && ++asked_ > kMostAsks) {
    ADD_FAILURE() << "a thread asks for the time without end and does not block";
    const_cast<FiberThreads*>(this)->Park(nullptr, absl::Seconds(1));
  }
  return time_->now();
}

bool FiberThreads::Park(const void* key, absl::Duration timeout) {
  VirtualThread& thread = *threads_.at(current_);
  ++thread.parks;
  thread.woken = false;
  thread.key = key;
  if (key != nullptr) {
    waiting_[key].push_back(current_);
  }
  if (timeout < absl::InfiniteDuration()) {
    ResumeAfter(std::max(timeout, kLeastPark), current_, thread.parks);
  }
  thread.fiber.Yield();
  return thread.woken;
}

void FiberThreads::StopWaiting(uint32_t id, VirtualThread* thread) {
  const auto found = waiting_.find(thread->key);
  if (thread->key == nullptr || found == waiting_.end()) {
    return;
  }
  std::erase(found->second, id);
  if (found->second.empty()) {
    waiting_.erase(found);
  }
  thread->key = nullptr;
}

void FiberThreads::Wake(uint32_t id) {
  VirtualThread& thread = *threads_.at(id);
  StopWaiting(id, &thread);
  thread.woken = true;
  ++thread.parks;  // its timeout is void
  ResumeAfter(dice_->Between(absl::ZeroDuration(), kMostDelay), id, thread.parks);
}

void FiberThreads::WakeOne(const void* key) {
  if (const auto found = waiting_.find(key); found != waiting_.end()) {
    Wake(found->second.front());
  }
}

void FiberThreads::WakeAll(const void* key) {
  for (auto found = waiting_.find(key); found != waiting_.end(); found = waiting_.find(key)) {
    Wake(found->second.front());
  }
}

void FiberThreads::CallAsEvent(absl::FunctionRef<void()> what) {
  CHECK_NE(current_, 0u);
  const uint32_t caller = std::exchange(current_, 0);
  SetCurrent(nullptr);
  what();
  SetCurrent(this);
  current_ = caller;
}

void FiberThreads::Join(uint64_t thread) {
  while (true) {
    const auto found = threads_.find(static_cast<uint32_t>(thread));
    if (found == threads_.end()) {
      return;
    }
    Park(found->second.get(), absl::InfiniteDuration());
  }
}

}  // namespace monsoon::simulation
