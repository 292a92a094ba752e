#include "worker/group/replica_thread.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

// Bounds one wait only; the loop goes on.
constexpr absl::Duration kSlice = absl::Seconds(60);

}  // namespace

ReplicaThread::ReplicaThread()
    : state_(std::make_shared<State>()), thread_([state = state_] { Run(*state); }) {}

ReplicaThread::~ReplicaThread() {
  if (thread_.joinable()) {
    Stop();
    thread_.Join();
  }
}

void ReplicaThread::Stop() {
  {
    MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  state_->changed.NotifyAll();
}

void ReplicaThread::GiveUp() {
  Stop();
  thread_.LetGo();
}

void ReplicaThread::Start(std::function<void()> call) {
  {
    MutexLock lock(&state_->mutex);
    CHECK(state_->call == nullptr);
    CHECK(!state_->stopping);
    state_->call = std::move(call);
  }
  state_->changed.NotifyAll();
}

void ReplicaThread::Run(State& state) {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(&state.mutex);
      state.changed.WaitFor(&state.mutex, kSlice, [&state] {
        state.mutex.AssertHeld();
        return state.stopping || state.call != nullptr;
      });
      // A call that was started still runs: it may free what it holds.
      if (state.call == nullptr) {
        if (state.stopping) {
          return;
        }
        continue;
      }
      call = std::exchange(state.call, nullptr);
    }
    call();
  }
}

}  // namespace monsoon
