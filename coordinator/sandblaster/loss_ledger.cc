#include "coordinator/sandblaster/loss_ledger.h"

#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace monsoon {

void LossLedger::Begin(uint32_t contributions) {
  entries_.assign(contributions, Entry{});
  counted_ = 0;
  finite_ = true;
}

bool LossLedger::Add(uint32_t contribution, const ContributionLoss& loss) {
  CHECK_LT(contribution, entries_.size());
  Entry& entry = entries_[contribution];
  if (entry.counted) {
    return false;
  }
  entry = {true, loss};
  ++counted_;
  finite_ = finite_ && loss.finite && std::isfinite(loss.loss_sum);
  return true;
}

ContributionLoss LossLedger::Total() const {
  ContributionLoss total;
  for (const Entry& entry : entries_) {
    if (entry.counted) {
      total.loss_sum += entry.loss.loss_sum;
      total.examples += entry.loss.examples;
      total.correct += entry.loss.correct;
    }
  }
  total.finite = finite_;
  if (!finite_) {
    total.loss_sum = std::numeric_limits<double>::infinity();
  }
  return total;
}

}  // namespace monsoon
