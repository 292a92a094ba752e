#include "common/transport/frame/message_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

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

uint64_t WorkersAdmitted(uint64_t message_memory_bytes, uint32_t connections) {
  const uint64_t pool = Pool(message_memory_bytes);
  const uint64_t streams = (MostConnectionBytes(pool) - MostSharedBytes(pool)) / kOpenStreamBytes;
  return std::max<uint64_t>(1, streams / (kStreamsPerWorker * connections));
}

MessageBudget::MessageBudget(uint64_t message_memory_bytes)
    : message_memory_bytes_(message_memory_bytes),
      shares_({.what = "bytes of message memory for data streams",
               .total = MostConnectionBytes(Pool(message_memory_bytes)),
               .least = kStreamsPerWorker * kOpenStreamBytes,
               .remedy = "let some of its programs end, or raise ps.message_memory_mib in the "
                         "cluster file"}) {}

uint64_t MessageBudget::CostOf(Kind kind) const {
  return kind == Kind::kStream ? kOpenStreamBytes : kOpenSharedBytes;
}

absl::Status MessageBudget::Connect(Kind kind, const std::string& member) {
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
  RETURN_IF_ERROR(shares_.Take(member, cost));
  ++connections_;
  connection_bytes_ += cost;
  shared_bytes_ += kind == Kind::kShared ? cost : 0;
  return absl::OkStatus();
}

void MessageBudget::Disconnect(Kind kind, const std::string& member) {
  MutexLock lock(&mutex_);
  CHECK_GT(connections_, 0u);
  shares_.Give(member, CostOf(kind));
  --connections_;
  connection_bytes_ -= CostOf(kind);
  shared_bytes_ -= kind == Kind::kShared ? CostOf(kind) : 0;
}

uint64_t MessageBudget::Most() const {
  const uint64_t pool = Pool(message_memory_bytes_);
  return connection_bytes_ >= pool ? 1
                                   : std::max<uint64_t>(1, (pool - connection_bytes_) / kTurnBytes);
}

bool MessageBudget::HasTurn(const Holder& holder) const {
  const uint64_t taken = busy_.size() + idle_.size() + asked_.size();
  const MemberShares::Options share = {.what = "", .total = Most()};
  return open_ ||
         (taken < Most() && (holder.member_.empty() ||
                             holder.turns_->held < MemberShares::Share(share, turns_.size())));
}

MessageBudget::Holder* MessageBudget::NextWaiting() const {
  const auto next = std::ranges::min_element(
      waiting_, {}, [](const Holder* holder) { return holder->turns_->held; });
  return next != waiting_.end() && HasTurn(**next) ? *next : nullptr;
}

bool MessageBudget::IsInTheWay(const Holder& holder) const {
  return Wanted() && (holder.turns_->waited_for > 0 ||
                      std::ranges::any_of(waiting_, [&](const Holder* waiting) {
                        return waiting->turns_->held < holder.turns_->held;
                      }));
}

bool MessageBudget::open() const {
  MutexLock lock(&mutex_);
  return open_;
}

uint64_t MessageBudget::turns() const {
  MutexLock lock(&mutex_);
  return Most();
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
    Count(holder, holder->state_, -1);
    to.splice(to.end(), ListOf(holder->state_), holder->place_);
  }
  holder->state_ = state;
  Count(holder, state, 1);
}

void MessageBudget::Count(Holder* holder, Holder::State state, uint64_t more) {
  (state == Holder::State::kWaiting ? holder->turns_->waited_for : holder->turns_->held) += more;
}

void MessageBudget::Remove(Holder* holder) {
  ListOf(holder->state_).erase(holder->place_);
  Count(holder, holder->state_, -1);
  holder->state_ = Holder::State::kNone;
  if (!holder->member_.empty() && holder->turns_->held + holder->turns_->waited_for == 0) {
    turns_.erase(holder->member_);
  }
  holder->turns_ = &holder->own_;
}

void MessageBudget::Begin(Holder* holder, absl::Duration now) {
  // Idle until its message has come.
  Move(holder, Holder::State::kIdle);
  holder->served_ = false;
  holder->granted_at_ = holder->changed_at_ = now;
}

bool MessageBudget::Ask(Holder* holder, absl::Duration now, const std::string& member) {
  MutexLock lock(&mutex_);
  CHECK(holder->state_ == Holder::State::kNone);
  holder->member_ = member;
  holder->turns_ = member.empty() ? &holder->own_ : &turns_[member];
  if (NextWaiting() == nullptr && HasTurn(*holder)) {
    Begin(holder, now);
    return true;
  }
  Move(holder, Holder::State::kWaiting);
  waits_.NotifyAll();
  return false;
}

void MessageBudget::GrantWaiting(absl::Duration now) {
  while (Holder* const next = NextWaiting()) {
    Begin(next, now);
    next->Granted();
  }
}

void MessageBudget::Leave(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  if (holder->state_ == Holder::State::kNone) {
    return;
  }
  Remove(holder);
  GrantWaiting(now);
}

bool MessageBudget::NoteBusy(Holder* holder, absl::Duration now) {
  MutexLock lock(&mutex_);
  const bool over =
      !open_ && holder->served_ && now - holder->granted_at_ >= kLongestTurn && IsInTheWay(*holder);
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
  if (open_ || now - holder->granted_at_ < kShortestTurn || !IsInTheWay(*holder)) {
    return true;
  }
  Move(holder, Holder::State::kAsked);
  return false;
}

void MessageBudget::NoteEnding(Holder* holder) {
  MutexLock lock(&mutex_);
  if (holder->state_ == Holder::State::kWaiting) {
    Remove(holder);
  } else if (holder->state_ != Holder::State::kNone) {
    Move(holder, Holder::State::kAsked);
  }
}

void MessageBudget::Tick(absl::Duration now) {
  MutexLock lock(&mutex_);
  GrantWaiting(now);
  for (auto next = idle_.begin(); next != idle_.end() && Wanted();) {
    Holder* const holder = *next++;
    if (now - holder->granted_at_ >= (holder->served_ ? kShortestTurn : kFirstMessage) &&
        IsInTheWay(*holder)) {
      Move(holder, Holder::State::kAsked);
      holder->GiveWay(/*stuck=*/false);
    }
  }
  if (!busy_.empty() && now - busy_.front()->changed_at_ >= kStuck && IsInTheWay(*busy_.front())) {
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
