#include "worker/session/push_bound.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// Bounds one wait of the teller only; the loop goes on.
constexpr absl::Duration kSlice = absl::Seconds(60);
// What is not told at once, since the bound is large, is told after so long.
constexpr absl::Duration kTellAfter = absl::Milliseconds(50);
// Between two calls that the coordinator did not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(100);
// Between two questions of a replica that waits: short against a push at first, then easy on the
// coordinator.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);
// With a bound of b, pushes are told by b / kTellings.
constexpr uint64_t kTellings = 4;

}  // namespace

std::unique_ptr<PushBound> PushBound::Of(const Job& job, const SessionKey& session,
                                         ReplicaClient* coordinator, StatsCollector* stats,
                                         SessionControl* control, const Clock* clock) {
  const Downpour& downpour = job.downpour();
  if (!downpour.has_staleness_bound() || downpour.staleness_policy() != WAIT_FOR_SLOWEST) {
    return nullptr;
  }
  return std::make_unique<PushBound>(downpour.staleness_bound(), session, coordinator, stats,
                                     control, clock);
}

PushBound::PushBound(uint32_t bound, const SessionKey& session, ReplicaClient* coordinator,
                     StatsCollector* stats, SessionControl* control, const Clock* clock)
    : session_(session),
      coordinator_(coordinator),
      stats_(stats),
      control_(control),
      clock_(clock),
      bound_(bound),
      teller_([this] { Run(); }) {}

PushBound::~PushBound() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  teller_.Join();
}

void PushBound::Acknowledged(uint64_t pushes) {
  {
    MutexLock lock(&mutex_);
    acknowledged_ = std::max(acknowledged_, pushes);
  }
  changed_.NotifyAll();
}

void PushBound::SetBound(uint32_t bound) {
  {
    MutexLock lock(&mutex_);
    bound_ = bound;
  }
  changed_.NotifyAll();
}

void PushBound::Rest() {
  MutexLock lock(&mutex_);
  ++rests_;
  least_.reset();
}

uint64_t PushBound::Untold() const { return acknowledged_ + raised_ - told_; }

bool PushBound::MayCompute(uint64_t pushes) const {
  return least_.has_value() && pushes + raised_ <= *least_ + bound_;
}

std::string PushBound::WaitsFor(uint64_t pushes) const {
  if (!least_.has_value()) {
    return absl::StrCat("worker/", slowest_, " to say how far it is");
  }
  return absl::StrCat("worker/", slowest_, ", which is ", pushes + raised_ - *least_,
                      " pushes behind (staleness_bound ", bound_, ")");
}

absl::StatusOr<bool> PushBound::Await(uint64_t pushes,
                                      absl::FunctionRef<absl::Status()> meanwhile) {
  {
    MutexLock lock(&mutex_);
    if (MayCompute(pushes)) {
      return false;
    }
  }
  const absl::Duration begin = clock_->Now();
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    std::string waits_for;
    {
      MutexLock lock(&mutex_);
      asks_ = true;
      changed_.NotifyAll();
      changed_.WaitFor(&mutex_, kLongestPause, [this, before = answers_] {
        mutex_.AssertHeld();
        return answers_ != before;
      });
      if (MayCompute(pushes)) {
        break;
      }
      waits_for = WaitsFor(pushes);
    }
    stats_->SetWaitsFor(waits_for);
    RETURN_IF_ERROR(meanwhile());
    if (control_->Sleep(pause) != SessionControl::State::kRunning) {
      return absl::CancelledError(absl::StrCat("the session ends while it waits for ", waits_for));
    }
  }
  stats_->AddBoundWait(clock_->Now() - begin);
  return true;
}

void PushBound::Take(uint64_t clock, uint64_t rests, const ClockReply& reply) {
  raised_ += reply.clock() - clock;  // down, too: numbers wrap around
  told_ = reply.clock();
  slowest_ = reply.slowest();
  // What was asked before a rest says nothing of where it begins afterwards.
  if (reply.has_least() && rests == rests_) {
    least_ = reply.least();
  }
}

void PushBound::Run() {
  while (true) {
    ClockRequest request;
    *request.mutable_session() = session_;
    uint64_t rests = 0;
    {
      MutexLock lock(&mutex_);
      changed_.WaitFor(&mutex_, Untold() > 0 ? kTellAfter : kSlice, [this] {
        mutex_.AssertHeld();
        return stopping_ || asks_ || Untold() >= std::max<uint64_t>(1, bound_ / kTellings);
      });
      if (stopping_) {
        return;
      }
      if (!asks_ && Untold() == 0) {
        continue;
      }
      asks_ = false;
      request.set_call(++calls_);
      request.set_clock(acknowledged_ + raised_);
      request.set_begins(!least_.has_value());
      rests = rests_;
    }
    const absl::StatusOr<ClockReply> reply = coordinator_->TellClock(request);
    {
      MutexLock lock(&mutex_);
      ++answers_;
      if (reply.ok()) {
        Take(request.clock(), rests, *reply);
      }
      changed_.NotifyAll();
      if (!reply.ok()) {
        // Whether the session is over is said elsewhere.
        changed_.WaitFor(&mutex_, kRetryPause, [this] {
          mutex_.AssertHeld();
          return stopping_;
        });
      }
    }
  }
}

}  // namespace monsoon
