#include "worker/group/call_progress.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = absl::Seconds(1);

}  // namespace

void CallProgress::Done(size_t call, absl::Duration duration) {
  {
    MutexLock lock(&mutex_);
    returned_.done[call] = true;
    ++returned_.finished;
    returned_.longest = std::max(returned_.longest, duration);
  }
  changed_.NotifyAll();
}

void CallProgress::AwaitAll() {
  MutexLock lock(&mutex_);
  while (returned_.finished < returned_.done.size()) {
    changed_.WaitFor(&mutex_, kWaitSlice);
  }
}

void CallProgress::Await(absl::Duration slice,
                         const std::function<bool(absl::Duration waited, const Returned&)>& late) {
  absl::Duration waited;
  MutexLock lock(&mutex_);
  while (returned_.finished < returned_.done.size()) {
    if (late(waited, returned_)) {
      return;
    }
    if (!changed_.WaitFor(&mutex_, slice)) {
      waited += slice;
    }
  }
}

CallProgress::Returned CallProgress::Get() const {
  MutexLock lock(&mutex_);
  return returned_;
}

}  // namespace monsoon
