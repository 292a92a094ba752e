#include "common/transport/frame/message_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

// Turns that connections leave room for, if the memory has it.
constexpr uint64_t kTurnsKept = 8;

// What connections and turns may take together.
uint64_t Pool(uint64_t message_memory_bytes) { return message_memory_bytes / 4 * 3; }

uint64_t MostConnectionBytes(uint64_t pool) {
  return pool - std::min(kTurnsKept * kTurnBytes, pool / 2);
}

// The others use gRPC.
uint64_t MostSharedBytes(uint64_t pool) { return pool / 3; }

}  // namespace

uint64_t WorkersAdmitted(uint64_t message_memory_bytes) {
  const uint64_t pool = Pool(message_memory_bytes);
  const uint64_t streams = (MostConnectionBytes(pool) - MostSharedBytes(pool)) / kOpenStreamBytes;
  return std::max<uint64_t>(1, streams / kStreamsPerWorker);
}

MessageBudget::MessageBudget(uint64_t message_memory_bytes)
    : message_memory_bytes_(message_memory_bytes) {}

uint64_t MessageBudget::CostOf(Kind kind) const {
  return kind == Kind::kStream ? kOpenStreamBytes : kOpenSharedBytes;
}

absl::Status MessageBudget::Connect(Kind kind) {
  const uint64_t pool = Pool(message_memory_bytes_);
  MutexLock lock(&mutex_);
  const uint64_t cost = CostOf(kind);
  const bool fits = connection_bytes_ + cost <= MostConnectionBytes(pool) &&
                    (kind == Kind::kStream || shared_bytes_ + cost <= MostSharedBytes(pool));
  if (!fits && connections_ > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", connections_, " data streams that a message budget of ",
        message_memory_bytes_ >> 20, " MiB allows are open", kind == Kind::kStream ? "" : " here",
        "; raise ps.message_memory_mib in the cluster file"));
  }
  ++connections_;
  connection_bytes_ += cost;
  shared_bytes_ += kind == Kind::kShared ? cost : 0;
  return absl::OkStatus();
}

void MessageBudget::Disconnect(Kind kind) {
  MutexLock lock(&mutex_);
  CHECK_GT(connections_, 0u);
  --connections_;
  connection_bytes_ -= CostOf(kind);
  shared_bytes_ -= kind == Kind::kShared ? CostOf(kind) : 0;
}

bool MessageBudget::HasTurn() const {
  const uint64_t taken = busy_.size() + idle_.size() + asked_.size();
  return open_ || taken == 0 ||
         connection_bytes_ + (taken + 1) * kTurnBytes <= Pool(message_memory_bytes_);
}

bool MessageBudget::open() const {
  MutexLock lock(&mutex_);
  return open_;
}

uint64_t MessageBudget::turns() const {
  MutexLock lock(&mutex_);
  const uint64_t pool = Pool(message_memory_bytes_);
  return connection_bytes_ >= pool ? 1
                                   : std::max<uint64_t>(1, (pool - connection_bytes_) / kTurnBytes);
}

bool MessageBudget::Wanted() const { return waiting_.size() > asked_.size(); }

std::list<MessageBudget::Holder*>& MessageBudget::ListOf(Holder::State state) {
  switch (state) {
    case Holder::State::kWaiting:
      return waiting_;
    case Holder::State::kBusy:
      return busy_;
    case Holder::State::kIdle:
      return idle_;
    default:
      return asked_;
  }
}

void MessageBudget::Move(Holder* holder, Holder::State state) {
  std::list<Holder*>& to = ListOf(state);
  if (holder->state_ == Holder::State::kNone) {
    holder->place_ = to.insert(to.end(), holder);
  } else {
    to.splice(to.end(), ListOf(holder->state_), holder->place_);
  }
  holder->state_ = state;
}

void MessageBudget::Begin(Holder* holder, absl::Duration now) {
  // Idle until its message has come.
  Move(holder, Holder::State::kIdle);
  holder->served_ = false;
  holder->granted_at_ = holder->changed_at_ = now;
}

bool MessageBudget::Ask(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  CHECK(holder->state_ == Holder::State::kNone);
  if (waiting_.empty() && HasTurn()) {
    Begin(holder, now);
    return true;
  }
  Move(holder, Holder::State::kWaiting);
  waits_.NotifyAll();
  return false;
}

void MessageBudget::GrantWaiting(absl::Duration now) {
  while (!waiting_.empty() && HasTurn()) {
    Holder* const next = waiting_.front();
    Begin(next, now);
    next->Granted();
  }
}

void MessageBudget::Leave(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  if (holder->state_ == Holder::State::kNone) {
    return;
  }
  ListOf(holder->state_).erase(holder->place_);
  holder->state_ = Holder::State::kNone;
  GrantWaiting(now);
}

bool MessageBudget::NoteBusy(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  const bool over =
      !open_ && holder->served_ && Wanted() && now - holder->granted_at_ >= kLongestTurn;
  Move(holder, over ? Holder::State::kAsked : Holder::State::kBusy);
  holder->served_ = true;
  holder->changed_at_ = now;
  return !over;
}

void MessageBudget::NoteProgress(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  if (holder->state_ == Holder::State::kBusy) {
    Move(holder, Holder::State::kBusy);  // to the end of the list
    holder->changed_at_ = now;
  }
}

bool MessageBudget::NoteIdle(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  Move(holder, Holder::State::kIdle);
  holder->changed_at_ = now;
  if (open_ || !Wanted() || now - holder->granted_at_ < kShortestTurn) {
    return true;
  }
  Move(holder, Holder::State::kAsked);
  return false;
}

void MessageBudget::NoteEnding(Holder* holder) {
  MutexLock lock(&mutex_);
  if (holder->state_ == Holder::State::kWaiting) {
    waiting_.erase(holder->place_);
    holder->state_ = Holder::State::kNone;
  } else if (holder->state_ != Holder::State::kNone) {
    Move(holder, Holder::State::kAsked);
  }
}

void MessageBudget::Tick(absl::Duration now) {
  MutexLock lock(&mutex_);
  GrantWaiting(now);
  for (auto next = idle_.begin(); next != idle_.end() && Wanted();) {
    Holder* const holder = *next++;
    if (now - holder->granted_at_ >= (holder->served_ ? kShortestTurn : kFirstMessage)) {
      Move(holder, Holder::State::kAsked);
      holder->GiveWay(/*stuck=*/false);
    }
  }
  if (Wanted() && !busy_.empty() && now - busy_.front()->changed_at_ >= kStuck) {
    Holder* const holder = busy_.front();
    Move(holder, Holder::State::kAsked);
    holder->GiveWay(/*stuck=*/true);
  }
}

bool MessageBudget::AwaitWaiting(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  waits_.WaitFor(&mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return open_ || !waiting_.empty();
  });
  return !open_ && !waiting_.empty();
}

void MessageBudget::Open() {
  MutexLock lock(&mutex_);
  open_ = true;
  GrantWaiting(absl::ZeroDuration());
  waits_.NotifyAll();
}

}  // namespace monsoon
