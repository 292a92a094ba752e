#include "coordinator/journal/committer.h"

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "coordinator/state/coordinator_state.h"

namespace monsoon {
namespace {

// So long updates that may lag wait for others.
constexpr absl::Duration kMostLag = absl::Milliseconds(100);

// Between two tries after a failure.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

constexpr absl::Duration kIdleWait = absl::Seconds(1);

}  // namespace

Committer::Committer(std::unique_ptr<Journal> journal, const Clock* clock)
    : journal_(std::move(journal)), clock_(clock) {
  if (journal_ != nullptr) {
    {
      MutexLock lock(&mutex_);
      commits_ = journal_->commits();
    }
    thread_ = std::thread([this] { Run(); });
  }
}

Committer::~Committer() {
  Stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Committer::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
}

void Committer::Add(const StateUpdate& update) {
  if (journal_ == nullptr) {
    return;
  }
  MutexLock lock(&mutex_);
  *pending_.add_update() = update;
  call_matters_ |= !MayLag(update);
}

uint64_t Committer::EndCall(absl::Duration at) {
  MutexLock lock(&mutex_);
  if (pending_.update_size() == sealed_) {
    return wanted_;
  }
  if (sealed_ == 0) {
    since_ = clock_->Now();
  }
  sealed_ = pending_.update_size();
  at_ = at;
  ++calls_;
  if (std::exchange(call_matters_, false)) {
    wanted_ = calls_;
    changed_.NotifyAll();
  }
  return wanted_;
}

bool Committer::Await(uint64_t ticket, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  changed_.WaitFor(&mutex_, timeout, [this, ticket] {
    mutex_.AssertHeld();
    return committed_ >= ticket || stopping_;
  });
  return committed_ >= ticket;
}

std::string Committer::trouble() const {
  MutexLock lock(&mutex_);
  return trouble_;
}

uint64_t Committer::commits() const {
  MutexLock lock(&mutex_);
  return commits_;
}

bool Committer::HasWork() const {
  return sealed_ > 0 && (wanted_ > committed_ || clock_->Now() - since_ >= kMostLag);
}

void Committer::Run() {
  StateUpdates batch;  // taken, and not committed yet
  absl::Duration pause = kFirstPause;
  while (true) {
    uint64_t upto = 0;
    absl::Duration at;
    bool last = false;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !HasWork() && batch.update().empty()) {
        changed_.WaitFor(&mutex_, sealed_ > 0 ? kMostLag : kIdleWait);
      }
      last = stopping_;
      if (last && sealed_ == 0 && batch.update().empty()) {
        return;
      }
      for (int i = 0; i < sealed_; ++i) {
        batch.mutable_update()->Add()->Swap(pending_.mutable_update(i));
      }
      pending_.mutable_update()->DeleteSubrange(0, sealed_);
      sealed_ = 0;
      upto = calls_;
      at = at_;
    }
    const absl::Status status = journal_->Commit(batch, at);
    if (status.ok()) {
      MONSOON_FAIL_POINT("journal.committed");
    }
    MutexLock lock(&mutex_);
    if (status.ok()) {
      batch.Clear();
      committed_ = upto;
      commits_ = journal_->commits();
      pause = kFirstPause;
      if (!trouble_.empty()) {
        LOG(INFO) << "the state of the coordinator can be written again";
        trouble_.clear();
      }
      changed_.NotifyAll();
      continue;
    }
    if (trouble_ != status.message()) {
      trouble_ = std::string(status.message());
      LOG(ERROR) << "the state of the coordinator cannot be written, and nothing goes on until "
                    "it can: "
                 << trouble_;
    }
    if (last) {
      return;
    }
    changed_.WaitFor(&mutex_, pause, [this] {
      mutex_.AssertHeld();
      return stopping_;
    });
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace monsoon
