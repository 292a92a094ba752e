#include "ps_server/shard/stripe_rules.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace monsoon {

uint64_t StripeRules::Take(Change change, uint64_t from, uint64_t version) {
  CHECK(change.kernel != nullptr);
  CHECK_EQ(change.kernel->state_slots(), kernel_->state_slots());
  from = std::max(from, version + 1);
  changing().rounds_are_held = false;
  changing().next = std::move(change);
  changing().from = from;
  Reach(version);
  return from;
}

void StripeRules::Reach(uint64_t version) {
  if (changing_ == nullptr || !changing_->next.has_value() || version + 1 < changing_->from) {
    return;
  }
  const Change& change = *changing_->next;
  kernel_ = change.kernel.get();
  damping_ = change.damping;
  most_stale_ = change.most_stale;
  const Clock* const clock = rounds_.clock;
  rounds_ = change.rounds;
  rounds_.clock = clock;
  changing_->kernel = change.kernel;  // the one before goes, which nobody uses any more
  changing_->next.reset();
}

}  // namespace monsoon
