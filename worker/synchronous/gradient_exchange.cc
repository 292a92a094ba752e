#include "worker/synchronous/gradient_exchange.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Bounds one wait only. A part waits for the caller, who computes, and a running call as long as
// its patience lets it.
constexpr absl::Duration kSlice = absl::Seconds(1);

}  // namespace

void GradientExchange::Begin(Communicator* communicator, std::span<float> values,
                             const CallOptions& options) {
  CHECK(communicator_ == nullptr);
  communicator_ = communicator;
  values_ = values;
  options_ = options;
  begun_ = Clock::Real()->Now();
  // Members that tell of no parts bring theirs when all is computed, which is no silence.
  options_.patience += computing_;
  {
    MutexLock lock(&mutex_);
    ready_ = values.size();
    given_up_ = false;
  }
  if (values.size() <= part_) {
    return;
  }
  if (!thread_) {
    thread_.emplace();
  }
  thread_->Start([this] { return Run(); });
}

void GradientExchange::Ready(size_t from) {
  {
    MutexLock lock(&mutex_);
    ready_ = std::min(ready_, from);
  }
  changed_.NotifyAll();
}

bool GradientExchange::Await(size_t begin) {
  MutexLock lock(&mutex_);
  while (ready_ > begin && !given_up_) {
    changed_.WaitFor(&mutex_, kSlice, [this, begin] {
      mutex_.AssertHeld();
      return ready_ <= begin || given_up_;
    });
  }
  return !given_up_;
}

absl::Status GradientExchange::Run() {
  for (size_t end = values_.size(); end > 0;) {
    const size_t begin = end - std::min(end, part_);
    if (!Await(begin)) {
      return absl::CancelledError("the gradient was not computed");
    }
    RETURN_IF_ERROR(communicator_->AllReduce(values_.subspan(begin, end - begin), options_));
    end = begin;
  }
  return absl::OkStatus();
}

absl::Status GradientExchange::Finish() {
  CHECK(communicator_ != nullptr);
  computing_ = Clock::Real()->Now() - begun_;
  Ready(0);
  absl::Status summed;
  if (values_.size() <= part_) {
    summed = communicator_->AllReduce(values_, options_);
  } else {
    std::optional<absl::Status> result;
    while (!result) {
      result = thread_->WaitTake(kSlice);
    }
    summed = *std::move(result);
  }
  communicator_ = nullptr;
  return summed;
}

void GradientExchange::GiveUp() {
  if (communicator_ == nullptr) {
    return;
  }
  {
    MutexLock lock(&mutex_);
    given_up_ = true;
  }
  changed_.NotifyAll();
  communicator_->Abort(absl::CancelledError("the gradient was not computed"));
  while (thread_ && thread_->busy()) {
    thread_->WaitTake(kSlice);
  }
  communicator_ = nullptr;
}

}  // namespace monsoon
