#include "coordinator/cli/patience.h"

#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

// An answer that is late by so much is worth a word.
constexpr absl::Duration kUntold = absl::Seconds(1);

// A coordinator that ends cancels the calls it has; one that cannot write its state says
// that it is unavailable.
bool IsAway(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status);
}

}  // namespace

void AddPatienceFlag(Invocation* call, double* seconds) {
  call->flags().Add("patience", seconds,
                    "seconds to go on asking a coordinator that was there and is away");
}

void Patience::Answered() {
  answered_ = true;
  last_answer_ = call_.env().clock->Now();
  if (told_) {
    call_.Note("it answers again");
    told_ = false;
  }
}

// Before the first answer: an address where nobody listens is no coordinator's, unless
// somebody is about to start one there.
bool Patience::IsKnown() const {
  return answered_ || refused_ || (comes_back_ != nullptr && comes_back_());
}

bool Patience::GoesOn(const absl::Status& status) {
  const absl::Duration silent = call_.env().clock->Now() - last_answer_;
  refused_ |= !WasNotReached(status);
  if (!IsAway(status) || silent >= longest_ || !IsKnown()) {
    return false;
  }
  if (!told_ && silent >= kUntold) {
    call_.Note(absl::StrFormat("%s; asking again for %.0f s", status.message(),
                               absl::ToDoubleSeconds(longest_ - silent)));
    told_ = true;
  }
  return true;
}

}  // namespace monsoon
