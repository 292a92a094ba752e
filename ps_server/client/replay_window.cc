#include "ps_server/client/replay_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

bool ReplayWindow::full(uint64_t bytes) const {
  return !kept_.empty() && bytes_ + bytes > limit_bytes_;
}

void ReplayWindow::Forgo() {
  forgoes_ = true;
  Forget(acknowledged_);
}

uint64_t ReplayWindow::Add(std::shared_ptr<const KeptBytes> bytes) {
  bytes_ += bytes->size();
  kept_.push_back({++last_, std::move(bytes), false});
  return last_;
}

void ReplayWindow::NameEpoch(uint64_t shard_epoch) {
  if (shard_epoch != epoch_) {
    epoch_ = shard_epoch;
    asks_ = true;
    acknowledged_ = 0;
  }
}

absl::Status ReplayWindow::OnMarks(uint64_t shard_epoch, uint64_t applied, uint64_t durable) {
  if (shard_epoch != epoch_) {
    return absl::OkStatus();
  }
  if (applied < durable_) {
    return absl::DataLossError(absl::StrCat("the shard's epoch ", shard_epoch, " has pushes up to ",
                                            applied, ", but ", applied + 1, " to ", durable_,
                                            " were called durable and are not kept any more"));
  }
  if (!asks_) {
    Forget(durable);
    return absl::OkStatus();
  }
  asks_ = false;
  next_ = applied + 1;
  acknowledged_ = applied;
  for (Push& push : kept_) {
    push.replayed = push.sequence > applied && push.sequence <= once_acknowledged_;
  }
  once_acknowledged_ = std::max(once_acknowledged_, applied);
  Forget(durable);
  return absl::OkStatus();
}

const ReplayWindow::Push* ReplayWindow::Next() const {
  if (asks_ || next_ > last_) {
    return nullptr;
  }
  // What was applied in the named epoch is never below what is durable.
  CHECK(next_ > durable_);
  return &kept_[next_ - durable_ - 1];
}

void ReplayWindow::OnSent() {
  CHECK(Next() != nullptr);
  ++next_;
}

void ReplayWindow::OnAcknowledged(uint64_t shard_epoch, uint64_t sequence, uint64_t durable) {
  if (shard_epoch != epoch_ || asks_ || sequence > last_) {
    return;
  }
  acknowledged_ = std::max(acknowledged_, sequence);
  once_acknowledged_ = std::max(once_acknowledged_, sequence);
  Forget(durable);
}

void ReplayWindow::Forget(uint64_t durable) {
  // No more than what this epoch has: its marks say what a later one will have.
  const uint64_t newest = forgoes_ ? acknowledged_ : std::min(durable, acknowledged_);
  while (!kept_.empty() && kept_.front().sequence <= newest) {
    durable_ = kept_.front().sequence;
    bytes_ -= kept_.front().bytes->size();
    kept_.pop_front();
  }
}

}  // namespace monsoon
