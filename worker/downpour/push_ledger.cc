#include "worker/downpour/push_ledger.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace monsoon {

void PushLedger::Over(uint64_t sequence, bool refused, std::vector<DonePart> parts) {
  unacknowledged_.push_back({sequence, refused, std::move(parts)});
}

std::vector<uint64_t> PushLedger::Acknowledge(uint64_t sequence) {
  // A client that knows nothing of acknowledgements says that all have everything.
  const uint64_t acknowledged = std::min(sequence, last_);
  std::vector<uint64_t> news;
  while (!unacknowledged_.empty() && unacknowledged_.front().sequence <= acknowledged) {
    Unacknowledged& push = unacknowledged_.front();
    unfinished_.push_back({push.sequence, push.sequence + fragments_ - 1, std::move(push.parts)});
    if (!push.refused) {
      news.push_back(push.sequence);
    }
    unacknowledged_.pop_front();
  }
  for (; !unfinished_.empty() && unfinished_.front().with_push <= acknowledged;
       unfinished_.pop_front()) {
    Finish(unfinished_.front().sequence, std::move(unfinished_.front().parts));
  }
  return news;
}

void PushLedger::FinishAll(std::vector<DonePart> parts) {
  for (Unfinished& push : unfinished_) {
    Finish(push.sequence, std::move(push.parts));
  }
  unfinished_.clear();
  for (Unacknowledged& push : unacknowledged_) {
    Finish(push.sequence, std::move(push.parts));
  }
  unacknowledged_.clear();
  Finish(last_, std::move(parts));
}

void PushLedger::Finish(uint64_t sequence, std::vector<DonePart> parts) {
  for (DonePart& part : parts) {
    if (StreamPosition* const position = std::get_if<StreamPosition>(&part)) {
      position->set_push(sequence);
    }
    done_.push_back(std::move(part));
  }
}

std::vector<DonePart> PushLedger::TakeDone() { return std::exchange(done_, {}); }

}  // namespace monsoon
