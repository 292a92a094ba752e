#include "worker/downpour/push_ledger.h"

#include <algorithm>
#include <utility>

namespace monsoon {

void PushLedger::Over(uint64_t sequence, bool refused, std::vector<BlockId> blocks) {
  unacknowledged_.push_back({sequence, refused, std::move(blocks)});
}

std::vector<uint64_t> PushLedger::Acknowledge(uint64_t sequence) {
  // A client that knows nothing of acknowledgements says that all have everything.
  const uint64_t acknowledged = std::min(sequence, last_);
  std::vector<uint64_t> news;
  while (!unacknowledged_.empty() && unacknowledged_.front().sequence <= acknowledged) {
    Unacknowledged& push = unacknowledged_.front();
    unfinished_.push_back({push.sequence + fragments_ - 1, std::move(push.blocks)});
    if (!push.refused) {
      news.push_back(push.sequence);
    }
    unacknowledged_.pop_front();
  }
  for (; !unfinished_.empty() && unfinished_.front().with_push <= acknowledged;
       unfinished_.pop_front()) {
    Finish(std::move(unfinished_.front().blocks));
  }
  return news;
}

void PushLedger::FinishAll(std::vector<BlockId> blocks) {
  for (Unfinished& push : unfinished_) {
    Finish(std::move(push.blocks));
  }
  unfinished_.clear();
  for (Unacknowledged& push : unacknowledged_) {
    Finish(std::move(push.blocks));
  }
  unacknowledged_.clear();
  Finish(std::move(blocks));
}

void PushLedger::Finish(std::vector<BlockId> blocks) {
  for (BlockId& block : blocks) {
    done_.push_back(std::move(block));
  }
}

std::vector<BlockId> PushLedger::TakeDone() { return std::exchange(done_, {}); }

}  // namespace monsoon
